"""A real agent process, a real gRPC server, real training processes."""

from __future__ import annotations

import json
import signal
import stat
import time
from dataclasses import replace
from pathlib import Path

from agent.launchers import processes
from platform_core.distribution.content.manifest import from_json, join, split
from tests.agent.conftest import AgentProcess, gone, stop, there, wanted
from tests.support.gateway import Gateway
from trainmaster.store.copying import describe
from trainmaster_wire.agent.v1 import session_pb2

RUNNING, EXITED = session_pb2.AttemptObserved.RUNNING, session_pb2.AttemptObserved.EXITED


async def test_a_node_joins_runs_a_job_and_cleans_up(gateway: Gateway, agent: AgentProcess) -> None:
    await agent.start("--rack", "r1", "--label", "disk=nvme", "--receive-cap-mib", "5", "--send-cap-mib", "3")
    await gateway.until(lambda: gateway.heartbeats)
    description = gateway.hellos[0].node
    assert (description.rack, len(description.slots), description.gpu_type) == ("r1", 2, "cpu")
    assert dict(description.labels) == {"disk": "nvme"}
    assert (description.receive_cap, description.send_cap) == (5 << 20, 3 << 20)
    identity = agent.data / "node.json"
    assert stat.S_IMODE(identity.stat().st_mode) == 0o600

    await gateway.want(wanted("att-test-1", "sh", "-c", "echo hello; echo last line"))
    ended = await gateway.until_drained("att-test-1")
    assert (ended.phase, ended.exit_code, ended.reason) == (EXITED, 0, "")
    told = gateway.attempts["att-test-1"]
    assert [each.uplink_drained for each in told] == [False] * (len(told) - 1) + [True]
    assert gateway.log("att-test-1", 0) == "hello\nlast line\n"

    await gateway.want()
    await gateway.until(lambda: not gateway.observed.attempts)
    await gone(agent.folder("att-test-1"))


async def test_a_killed_agent_comes_back_and_adopts_what_runs(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    script = f"echo before; while [ ! -e {go_on} ]; do sleep 0.1; done; echo after; exit 3"
    job = wanted("att-test-2", "sh", "-c", script)
    await agent.start()
    await gateway.want(job)
    await gateway.until(lambda: "before" in gateway.log("att-test-2", 0))
    await agent.kill()

    await agent.start()
    await gateway.until(lambda: len(gateway.hellos) == 2)
    (adopted,) = gateway.hellos[1].observed.attempts
    assert (adopted.attempt_id, adopted.phase) == ("att-test-2", RUNNING)
    assert len(gateway.joins) == 1

    go_on.touch()
    ended = await gateway.until_drained("att-test-2")
    assert (ended.exit_code, ended.end) == (3, session_pb2.AttemptObserved.SCRIPT_ERROR)
    assert gateway.log("att-test-2", 0) == "before\nafter\n"


async def test_an_attempt_that_ended_while_no_agent_lived_is_told_afterwards(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    script = f"echo before; while [ ! -e {go_on} ]; do sleep 0.1; done; echo after"
    await agent.start()
    await gateway.want(wanted("att-test-3", "sh", "-c", script))
    await gateway.until_phase("att-test-3", RUNNING)
    await agent.kill()
    go_on.touch()
    await there(agent.records("att-test-3") / "exit.json")

    await agent.start()
    ended = await gateway.until_drained("att-test-3")
    assert ended.exit_code == 0
    assert gateway.log("att-test-3", 0) == "before\nafter\n"


async def test_stop_reaches_what_does_not_want_to_hear_it(gateway: Gateway, agent: AgentProcess) -> None:
    daemon = "trap '' TERM HUP; while :; do sleep 0.2; done"
    script = f'trap "" TERM; setsid sh -c "{daemon}" & echo parent; wait; sleep 60'
    await agent.start()
    await gateway.want(wanted("att-test-4", "sh", "-c", script))
    await gateway.until(lambda: "parent" in gateway.log("att-test-4", 0))
    await gateway.want(stop("att-test-4", grace_seconds=1))
    ended = await gateway.until_drained("att-test-4")
    assert ended.exit_code == 137
    assert "within its grace" in ended.reason
    assert processes.marked("att-test-4") == []


async def test_a_revoked_credential_ends_the_agent_with_a_sentence(
    gateway: Gateway, agent: AgentProcess
) -> None:
    await agent.start()
    await gateway.until(lambda: gateway.heartbeats)
    await agent.kill(signal.SIGTERM)
    gateway.revoked.add("credential-of-node-1")
    await agent.start()
    assert await agent.ended() == 3
    assert "The credential of this node was revoked" in agent.log()
    assert "--rejoin" in agent.log()


async def test_a_wrong_bootstrap_token_ends_the_agent_with_a_sentence(
    gateway: Gateway, agent: AgentProcess
) -> None:
    await agent.start(token="wrong")
    assert await agent.ended() == 3
    assert "The bootstrap token is not valid" in agent.log()


async def test_lines_arrive_once_and_in_order_whatever_dies_on_the_way(
    gateway: Gateway, agent: AgentProcess
) -> None:
    script = "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); sleep 0.01; done"
    await agent.start()
    await gateway.want(wanted("att-test-5", "sh", "-c", script))
    await gateway.until(lambda: "line 20\n" in gateway.log("att-test-5", 0))
    gateway.acknowledges = False
    await gateway.until(lambda: "line 100\n" in gateway.log("att-test-5", 0) or len(gateway.batches) > 3)
    await agent.kill()  # with a batch kept by the server and not acknowledged
    gateway.acknowledges = True
    await agent.start()
    await gateway.until(lambda: "line 150\n" in gateway.log("att-test-5", 0))
    await gateway.restart()
    await gateway.until_drained("att-test-5")
    assert gateway.log("att-test-5", 0) == "".join(f"line {number}\n" for number in range(400))


async def test_secrets_stay_on_the_node_also_after_a_restart(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    script = (
        f"echo token=$HF_TOKEN; while [ ! -e {go_on} ]; do sleep 0.1; done; echo again $HF_TOKEN; $HF_TOKEN"
    )
    await agent.start()
    await gateway.want(wanted("att-test-6", "sh", "-c", script, secrets={"HF_TOKEN": "hf_topsecret"}))
    await gateway.until(lambda: "token=" in gateway.log("att-test-6", 0))
    await agent.kill()
    await gateway.want(stop("att-test-6", grace_seconds=60))  # carries no values
    await agent.start()
    await gateway.until(lambda: len(gateway.hellos) == 2)
    go_on.touch()
    ended = await gateway.until_drained("att-test-6")
    assert "topsecret" not in ended.reason
    assert "topsecret" not in gateway.log("att-test-6", 0)
    assert gateway.log("att-test-6", 0).startswith("token=•••HF_TOKEN•••\n")
    assert not any(b"topsecret" in batch.data for batch in gateway.batches)
    stored = [path for path in agent.data.rglob("*") if path.is_file() and path.name != "rank-0.log"]
    assert not any(b"topsecret" in path.read_bytes() for path in stored)


async def test_a_checkpoint_goes_up_and_the_next_attempt_resumes_from_it(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    save = (
        "mkdir -p $TRAINMASTER_DIR/checkpoints/step-5; echo weights > $TRAINMASTER_DIR/checkpoints/step-5/model;"
        ' echo \'{"kind": "checkpoint", "at_ms": 1, "step": 5, "path": "checkpoints/step-5", "metrics": {}}\''
        " >> $TRAINMASTER_DIR/spool/rank-0.jsonl"
    )
    await agent.start()
    store = (tmp_path / "store").as_uri()
    await gateway.want(wanted("att-test-7", "sh", "-c", save, checkpoint_upload_url=store))
    await gateway.until_drained("att-test-7")
    (uploaded,) = gateway.checkpoints("att-test-7")
    assert uploaded.step == 5

    resume = gateway.artifact(from_json(uploaded.manifest_json), uploaded.source_url)
    await gateway.want(wanted("att-test-8", "sh", "-c", "cat $TRAINMASTER_RESUME/model", resume=resume))
    ended = await gateway.until_drained("att-test-8")
    assert (ended.exit_code, gateway.log("att-test-8", 0)) == (0, "weights\n")


async def test_a_program_of_the_code_runs_by_its_path(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    (tmp_path / "source" / "bin").mkdir(parents=True)
    (tmp_path / "source" / "run.sh").write_text("#!/bin/sh\necho it runs\n./bin/tool || exit 3\n")
    (tmp_path / "source" / "bin" / "tool").write_text("#!/bin/sh\necho so does this\n")
    (tmp_path / "source" / "plain.txt").write_text("no program")
    plain, url, _ = describe((tmp_path / "source").as_uri(), "code")
    programs = {"run.sh", "bin/tool"}
    marked = [
        replace(part, entry=replace(part.entry, executable=part.entry.path in programs))
        for part in split(plain)
    ]
    manifest = join("code", marked, plain.piece_size)
    assert manifest.id != plain.id
    await agent.start()
    command = "./run.sh && test ! -x plain.txt && stat -c %a run.sh"
    await gateway.want(wanted("att-test-18", "sh", "-c", command, code=gateway.artifact(manifest, url)))
    ended = await gateway.until_drained("att-test-18")
    assert (ended.exit_code, gateway.log("att-test-18", 0)) == (0, "it runs\nso does this\n755\n")


async def test_what_cannot_be_fetched_is_the_platforms_fault_with_the_cause(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "train.py").write_text("print(1)\n")
    manifest, url, _ = describe((tmp_path / "source").as_uri(), "code")
    (tmp_path / "source" / "train.py").write_text("print(2)\n")
    code = gateway.artifact(manifest, url)
    await agent.start()
    await gateway.want(wanted("att-test-9", "sh", "-c", "true", code=code))
    ended = await gateway.until_drained("att-test-9")
    assert (ended.phase, ended.exit_code, ended.end) == (
        EXITED,
        125,
        session_pb2.AttemptObserved.DATA_REVIEW,
    )
    assert f"Could not fetch code bundle {manifest.id}:" in ended.reason
    assert "train.py" in ended.reason


async def test_a_stop_before_the_start_is_answered_and_nothing_runs(
    gateway: Gateway, agent: AgentProcess
) -> None:
    await gateway.want(stop("att-test-10"))
    await agent.start()
    ended = await gateway.until_drained("att-test-10")
    assert (ended.phase, ended.reason) == (EXITED, "It was stopped before it started on this node.")
    assert not agent.folder("att-test-10").exists()


async def test_what_the_server_no_longer_wants_is_stopped_and_forgotten(
    gateway: Gateway, agent: AgentProcess
) -> None:
    await agent.start()
    await gateway.want(wanted("att-test-11", "sleep", "300"))
    await gateway.until_phase("att-test-11", RUNNING)
    await gateway.want()
    await gateway.until(lambda: not gateway.observed.attempts)
    await gone(agent.folder("att-test-11"))
    assert processes.marked("att-test-11") == []


async def test_two_attempts_on_one_node_tell_their_use_slot_by_slot(
    gateway: Gateway, agent: AgentProcess
) -> None:
    await agent.start()
    await gateway.want(
        wanted("att-test-12", "sh", "-c", "while :; do :; done", slots=[1]),
        wanted("att-test-13", "sleep", "300", slots=[0]),
    )
    busy = await gateway.until(
        lambda: next((h for h in gateway.heartbeats if h.telemetry.slots[1].utilisation > 0.02), None)
    )
    assert busy.telemetry.slots[0].utilisation < busy.telemetry.slots[1].utilisation
    assert busy.telemetry.slots[0].memory_used_bytes > 0
    assert busy.telemetry.disk_free_bytes > 0
    assert not busy.telemetry.slots[0].HasField("temperature_celsius")


async def test_a_model_is_brought_here_and_removed_when_it_is_no_longer_wanted(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights.bin").write_bytes(b"w" * 100_000)
    manifest, url, _ = describe((tmp_path / "model").as_uri(), "model")
    artifact = gateway.artifact(manifest, url)
    await agent.start()
    await gateway.want_deployments(
        session_pb2.DeploymentWanted(
            deployment_id="dep-1",
            model="vision/m",
            version="1",
            artifact=artifact,
            signature=gateway.authority.sign(manifest.id),
        )
    )
    complete = session_pb2.DeploymentObserved.COMPLETE
    await gateway.until(lambda: any(d.state == complete for d in gateway.observed.deployments))
    home = agent.data / "models" / "vision" / "m" / "1" / "weights.bin"
    assert home.read_bytes() == b"w" * 100_000
    await gateway.want_deployments()
    await gone(home)


async def test_two_agents_do_not_share_a_folder(gateway: Gateway, agent: AgentProcess) -> None:
    await agent.start()
    await gateway.until(lambda: gateway.heartbeats)
    second = AgentProcess(gateway, agent.data)
    await second.start()
    assert await second.ended() == 2
    assert "Another agent already works in" in second.log()


async def test_a_node_that_rejoins_keeps_its_id_and_gets_a_new_credential(
    gateway: Gateway, agent: AgentProcess
) -> None:
    await agent.start()
    await gateway.until(lambda: gateway.heartbeats)
    await agent.kill(signal.SIGTERM)
    await agent.start("--rejoin")
    await gateway.until(lambda: len(gateway.hellos) == 2)
    assert [request.node_id for request in gateway.joins] == ["", "node-1"]


async def test_an_agent_told_to_takes_its_jobs_with_it(gateway: Gateway, agent: AgentProcess) -> None:
    await agent.start("--stop-jobs-on-leave")
    script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    await gateway.want(wanted("att-test-14", "sh", "-c", script))
    await gateway.until(lambda: "ready" in gateway.log("att-test-14", 0))
    await agent.kill(signal.SIGTERM)
    await there(agent.records("att-test-14") / "exit.json")
    await agent.start()
    ended = await gateway.until_drained("att-test-14")
    assert (ended.exit_code, ended.reason) == (0, "It was asked to stop, and did.")
    assert gateway.log("att-test-14", 0).endswith("saved\n")


async def test_a_running_script_reads_its_orders(gateway: Gateway, agent: AgentProcess) -> None:
    await agent.start()
    order = wanted("att-test-15", "sh", "-c", "echo ready; while :; do sleep 0.1; done")
    await gateway.want(order)
    await gateway.until(lambda: "ready" in gateway.log("att-test-15", 0))
    place = agent.folder("att-test-15") / "orders.json"
    assert not place.exists()
    order.save_order, order.checkpoint_interval_ms = 3, 600_000
    await gateway.want(order)
    await there(place)
    assert json.loads(place.read_text()) == {"save": 3, "checkpoint_interval_ms": 600_000}

    await agent.kill()
    await agent.start()
    halt = stop("att-test-15", grace_seconds=60)
    halt.save_order, halt.stop_deadline_ms, halt.stop_reason = (
        3,
        int(time.time() * 1000) + 20_000,
        "preempted",
    )
    await gateway.want(halt)
    await gateway.until(lambda: "stop" in json.loads(place.read_text()))
    stopping = json.loads(place.read_text())["stop"]
    assert (stopping["deadline_ms"], stopping["reason"]) == (halt.stop_deadline_ms, "preempted")
    await gateway.until_drained("att-test-15")
