"""A real agent process switches a model's link when it is told to, and no sooner."""

from __future__ import annotations

import os
from pathlib import Path

from tests.agent.conftest import AgentProcess, gone
from tests.support.gateway import Gateway
from trainmaster.store.copying import describe
from trainmaster_wire.agent.v1 import session_pb2

ACTIVE, FAILED = session_pb2.ActivationObserved.ACTIVE, session_pb2.ActivationObserved.FAILED


def brought(gateway: Gateway, folder: Path, version: str) -> session_pb2.DeploymentWanted:
    folder.mkdir()
    (folder / "weights.bin").write_bytes(version.encode() * 10_000)
    manifest, url, _ = describe(folder.as_uri(), "model")
    artifact = gateway.artifact(manifest, url)
    return session_pb2.DeploymentWanted(
        deployment_id=f"dep-{version}", model="vision/m", version=version, artifact=artifact,
        signature=gateway.authority.sign(manifest.id),
    )  # fmt: skip


def switch(version: str, **fields: object) -> session_pb2.ActivationWanted:
    told = {"revision": 1, "command_seconds": 20, **fields}
    return session_pb2.ActivationWanted(
        model="vision/m",
        version=version,
        deployment_id=f"dep-{version}",
        **told,  # type: ignore[arg-type]
    )


async def seen(gateway: Gateway, deployment: str, state: int) -> session_pb2.ActivationObserved:
    return await gateway.until(
        lambda: next(
            (
                one
                for one in gateway.observed.activations
                if (one.deployment_id, one.state) == (deployment, state)
            ),
            None,
        )
    )


async def test_a_version_is_switched_on_survives_a_restart_and_goes_back(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "reload").write_text(
        "#!/bin/sh\necho reloaded $TRAINMASTER_VERSION; test $TRAINMASTER_VERSION = 1\n"
    )
    (hooks / "reload").chmod(0o755)
    await agent.start("--hooks", str(hooks))
    link = agent.data / "active" / "vision" / "m"

    await gateway.want_activations(switch("1", hook="reload"))  # before its bytes are here
    one, two = brought(gateway, tmp_path / "one", "1"), brought(gateway, tmp_path / "two", "2")
    await gateway.want_deployments(one, two)
    told = await seen(gateway, "dep-1", ACTIVE)
    assert told.output == "reloaded 1"
    assert os.readlink(link) == "../../models/vision/m/1"

    await agent.kill()
    await agent.start("--hooks", str(hooks))
    await gateway.until(lambda: len(gateway.hellos) == 2)
    assert [one.version for one in gateway.hellos[1].observed.activations] == ["1"]

    await gateway.want_activations(switch("2", hook="reload"))
    failed = await seen(gateway, "dep-2", FAILED)
    assert (failed.exit_code, failed.version, os.readlink(link)) == (1, "1", "../../models/vision/m/1")
    await gateway.want_activations(switch("2", revision=2))
    await seen(gateway, "dep-2", ACTIVE)
    assert (link / "weights.bin").read_bytes()[:1] == b"2"

    await gateway.want_deployments(one)  # what is in use and no longer wanted takes its link with it
    await gone(agent.data / "models" / "vision" / "m" / "2")
    assert not link.is_symlink()
    await gateway.want_activations()
    await gateway.until(lambda: not gateway.observed.activations)


async def test_an_agent_without_a_folder_of_hooks_runs_none(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    await agent.start()
    await gateway.want_activations(switch("1", hook="reload"))
    await gateway.want_deployments(brought(gateway, tmp_path / "one", "1"))
    failed = await seen(gateway, "dep-1", FAILED)
    assert "start it with --hooks FOLDER" in failed.output
    assert not (agent.data / "active" / "vision" / "m").is_symlink()


async def test_a_folder_of_hooks_that_is_not_there_stops_the_start(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    await agent.start("--hooks", str(tmp_path / "none"))
    assert await agent.ended() == 2
    assert "The folder of hooks" in agent.log()
