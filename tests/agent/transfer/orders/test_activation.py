"""The link of a model is the old version or the new one, whatever a hook does and whenever the agent dies."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.transfer.orders.activation import Activations, Record, RunCheck, Switch, Unlink, next_step
from agent.transfer.orders.hooks import Hooks
from platform_core.node.observed import ActivationObserved, ActivationState
from platform_core.node.wanted import ActivationWanted

MODEL = "vision/bytelm"
ONE = ActivationWanted(MODEL, "1", "dep-1", 1)
TWO = replace(ONE, version="2", deployment_id="dep-2", previous_version="1")
SAID = (
    "echo $TRAINMASTER_PREVIOUS_VERSION to $TRAINMASTER_VERSION, linked $(readlink $TRAINMASTER_ACTIVE_LINK)"
)


class Node:
    """The part of an agent that switches; versions are here when their folder is."""

    def __init__(self, data: Path) -> None:
        self.data, self.hooks = data, data.parent / "hooks"
        self.hooks.mkdir()
        self._news = asyncio.Event()
        for version in ("1", "2"):
            self.home(version).mkdir(parents=True)
            (self.home(version) / "weights.bin").write_bytes(version.encode())
        self.start()

    def start(self) -> None:
        hooks = Hooks(self.hooks, {"PATH": os.environ["PATH"]})
        self.activations = Activations(self.data, hooks, self._here, self._changed)
        self.activations.load()

    def home(self, version: str) -> Path:
        return self.data / "models" / MODEL / version

    @property
    def link(self) -> Path:
        return self.data / "active" / MODEL

    def content(self) -> bytes:
        return (self.link / "weights.bin").read_bytes()

    def command(self, name: str, text: str) -> str:
        (self.hooks / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.hooks / name).chmod(0o755)
        return name

    def seen(self) -> ActivationObserved:
        (seen,) = self.activations.observed()
        return seen

    async def settled(self, *wanted: ActivationWanted) -> ActivationObserved | None:
        """What is observed once nothing is left to be done."""
        self.activations.want(wanted)
        async with asyncio.timeout(20):
            while tasks := list(self.activations._tasks.values()):
                await asyncio.gather(*tasks)
        return next(iter(self.activations.observed()), None)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await self._news.wait()

    def _here(self, model: str, version: str) -> bool:
        return (self.data / "models" / model / version).is_dir()

    def _changed(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    one = Node(tmp_path / "data")
    yield one
    await one.activations.close()


async def test_the_link_points_to_what_is_wanted_and_can_be_moved_with_the_folder(
    node: Node, tmp_path: Path
) -> None:
    seen = await node.settled(ONE)
    assert seen == ActivationObserved(MODEL, "1", "dep-1", 1, ActivationState.ACTIVE)
    assert node.content() == b"1"
    await node.settled(TWO)
    assert node.content() == b"2"
    node.data.rename(tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "active" / MODEL / "weights.bin").read_bytes() == b"2"


async def test_back_to_the_version_before_switches_the_link_and_touches_no_file(node: Node) -> None:
    await node.settled(ONE)
    before = {path: path.stat().st_ino for path in node.home("1").iterdir()}
    await node.settled(TWO)
    await node.settled(ONE)
    assert node.content() == b"1"
    assert {path: path.stat().st_ino for path in node.home("1").iterdir()} == before
    assert (node.home("2") / "weights.bin").exists()


async def test_without_a_version_before_the_link_goes(node: Node) -> None:
    await node.settled(ONE)
    assert await node.settled() is None
    assert not (node.data / "active" / "vision").exists()


async def test_what_is_not_here_leaves_in_use_what_is(node: Node) -> None:
    await node.settled(ONE)
    missing = replace(TWO, version="3")
    await node.settled(missing)
    assert node.content() == b"1"
    node.home("3").mkdir()
    await node.settled(missing)
    assert node.link.resolve() == node.home("3").resolve()


async def test_a_hook_runs_once_after_the_switch_and_is_told_what_it_needs(node: Node) -> None:
    await node.settled(ONE)
    hook = node.command("reload", f"{SAID}; pwd >> {node.hooks}/runs")
    seen = await node.settled(replace(TWO, hook=hook))
    assert seen is not None
    assert seen.output == "1 to 2, linked ../../models/vision/bytelm/2"
    await node.settled(replace(TWO, hook=hook))
    assert (node.hooks / "runs").read_text() == f"{node.hooks}\n"


async def test_a_failing_hook_is_reported_and_the_link_goes_back(node: Node) -> None:
    await node.settled(ONE)
    wanted = replace(TWO, hook=node.command("reload", "echo no such service; exit 3"))
    seen = await node.settled(wanted)
    assert seen == ActivationObserved(
        MODEL, "1", "dep-2", 1, ActivationState.FAILED, exit_code=3, output="no such service"
    )
    assert node.content() == b"1"
    assert await node.settled(wanted) == seen, "not again before somebody asks for it"
    node.command("reload", "true")
    again = await node.settled(replace(wanted, revision=2))
    assert again is not None
    assert (again.state, again.revision, node.content()) == (ActivationState.ACTIVE, 2, b"2")


async def test_the_first_version_whose_hook_fails_leaves_no_link(node: Node) -> None:
    await node.settled(replace(ONE, hook=node.command("reload", "exit 1")))
    assert not node.link.is_symlink()


async def test_the_same_version_again_stays_when_its_hook_fails(node: Node) -> None:
    await node.settled(ONE)
    await node.settled(replace(ONE, deployment_id="dep-3", hook=node.command("reload", "exit 1")))
    assert node.content() == b"1"


async def test_on_the_way_back_a_failing_hook_does_not_lead_to_what_was_left(node: Node) -> None:
    hook = node.command("reload", 'test "$TRAINMASTER_VERSION" = 2')
    await node.settled(ONE)
    await node.settled(replace(TWO, hook=hook))
    seen = await node.settled(replace(ONE, hook=hook))
    assert seen is not None
    assert (seen.state, seen.version, node.content()) == (ActivationState.FAILED, "1", b"1")


async def test_a_health_check_runs_once_a_round(node: Node) -> None:
    node.command("check-model", f"echo run >> {node.hooks}/runs; cat {node.hooks}/runs; exit 2")
    wanted = replace(ONE, health_check="check-model", round=1)
    seen = await node.settled(wanted)
    assert seen is not None
    assert (seen.state, seen.round, seen.check_exit_code, seen.check_output) == (
        ActivationState.ACTIVE,
        1,
        2,
        "run",
    )
    assert await node.settled(wanted) == seen
    second = await node.settled(replace(wanted, round=2))
    assert second is not None
    assert (second.round, second.check_output) == (2, "run\nrun")


async def test_an_agent_that_dies_in_a_hook_runs_it_again_and_knows_the_way_back(node: Node) -> None:
    await node.settled(ONE)
    wanted = replace(TWO, hook=node.command("reload", f"mkfifo {node.hooks}/gate; cat {node.hooks}/gate"))
    node.activations.want([wanted])
    await node.until(lambda: node.seen().state is ActivationState.SWITCHING)
    await node.activations.close()
    node.command("reload", "exit 1")
    node.start()
    assert node.seen().state is ActivationState.SWITCHING
    seen = await node.settled(wanted)
    assert seen is not None
    assert (seen.state, node.content()) == (ActivationState.FAILED, b"1")


async def test_a_restarted_agent_leaves_all_as_it_is_until_it_hears_what_is_wanted(node: Node) -> None:
    await node.settled(ONE)
    before = node.seen()
    await node.activations.close()
    node.start()
    assert node.seen() == before
    assert node.activations.in_use() == {node.home("1")}
    assert await node.settled(ONE) == before


async def test_what_is_active_and_what_one_would_go_back_to_is_in_use(node: Node) -> None:
    await node.settled(ONE)
    await node.settled(TWO)
    assert node.activations.in_use() == {node.home("1"), node.home("2")}
    await node.settled(replace(ONE, previous_version=""))
    assert node.home("1") in node.activations.in_use()


async def test_before_a_version_is_removed_its_link_goes(node: Node) -> None:
    await node.settled(ONE)
    await node.activations.vacate(MODEL, "2")
    assert node.content() == b"1"
    await node.activations.vacate(MODEL, "1")
    assert not node.link.is_symlink()


async def test_a_link_that_somebody_removed_comes_back(node: Node) -> None:
    await node.settled(ONE)
    node.link.unlink()
    await node.settled(ONE)
    assert node.content() == b"1"


async def test_a_model_s_name_cannot_lead_out_of_the_folder(node: Node) -> None:
    (node.data.parent / "x").mkdir()
    await node.settled(replace(ONE, model="../../x"))
    assert not list(node.data.parent.glob("**/*.json"))


# -- commands


async def run(node: Node, text: str, name: str = "command", seconds: float = 20) -> tuple[int, str]:
    ended = await Hooks(node.hooks, {"PATH": os.environ["PATH"]}).run(
        node.command(name, text), {"GIVEN": "it"}, seconds
    )
    return ended.exit_code, ended.output


async def test_a_command_gets_what_it_was_given_and_nothing_of_the_agent(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMASTER_AGENT_TOKEN", "secret")
    code, output = await run(node, "env; echo args: $#; exit 5")
    assert (code, "GIVEN=it" in output, "args: 0" in output, "secret" in output) == (5, True, True, False)


async def test_of_much_output_the_end_is_kept(node: Node) -> None:
    _, output = await run(node, "seq 100000; echo done >&2")
    assert len(output) <= 4_000
    assert output.endswith("99999\n100000\ndone")


async def test_a_command_that_does_not_end_is_killed_with_its_children(node: Node) -> None:
    code, output = await run(node, "echo begun; sleep 600 & wait", seconds=0.5)
    assert (code, output) == (124, "begun\n\ncommand had not ended after 0.5 s and was killed")


async def test_a_signal_is_told_as_the_shell_does(node: Node) -> None:
    assert (await run(node, "kill -9 $$"))[0] == 137


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (lambda hooks: (hooks / "command").unlink(), "There is no"),
        (lambda hooks: (hooks / "command").chmod(0o644), "chmod [+]x"),
        (lambda hooks: (hooks / "command").chmod(0o757), "can be written by everybody"),
        (lambda hooks: hooks.chmod(0o777), "can be written by everybody"),
        (lambda hooks: (hooks / "command").write_text("no interpreter"), "cannot be run"),
    ],
)
async def test_a_command_that_may_not_run_is_a_failure_with_a_remedy(
    node: Node, break_it: Callable[[Path], object], sentence: str
) -> None:
    node.command("command", "true")
    break_it(node.hooks)
    ended = await Hooks(node.hooks, {}).run("command", {}, 5)
    assert ended.exit_code in (126, 127)
    assert re.search(sentence, ended.output)


@pytest.mark.parametrize("name", ["../reload", "/bin/sh", ".", "", "a b", "-x"])
async def test_only_a_file_of_the_folder_can_be_named(node: Node, name: str) -> None:
    ended = await Hooks(node.hooks, {}).run(name, {}, 5)
    assert ended.exit_code in (126, 127)


async def test_without_a_folder_nothing_runs(node: Node) -> None:
    ended = await Hooks(None, {}).run("reload", {}, 5)
    assert (ended.exit_code, "--hooks FOLDER" in ended.output) == (126, True)


# -- what to do next, decided without a disk

ORDERS = st.builds(
    ActivationWanted, st.just(MODEL), st.sampled_from(["1", "2"]), st.sampled_from(["dep-1", "dep-2"]),
    st.integers(1, 2), st.just(""), st.sampled_from(["", "check"]), st.integers(0, 2),
)  # fmt: skip
RECORDS = st.builds(
    Record,
    st.builds(
        ActivationObserved, st.just(MODEL), st.sampled_from(["", "1", "2"]), st.sampled_from(["dep-1", "dep-2"]),
        st.integers(1, 2), st.sampled_from(ActivationState), round=st.integers(0, 2),
    ),
)  # fmt: skip


@given(ORDERS, st.none() | RECORDS, st.sampled_from(["", "1", "2"]))
def test_what_is_not_here_is_never_switched_to(
    wanted: ActivationWanted, record: Record | None, linked: str
) -> None:
    assert next_step(wanted, record, here=False, linked=linked) is None


@given(ORDERS, st.none() | RECORDS, st.sampled_from(["", "1", "2"]))
def test_what_has_been_done_is_not_done_again(
    wanted: ActivationWanted, record: Record | None, linked: str
) -> None:
    step = next_step(wanted, record, here=True, linked=linked)
    if isinstance(step, Switch):
        done = ActivationObserved(
            MODEL, wanted.version, wanted.deployment_id, wanted.revision, ActivationState.ACTIVE
        )
        record, linked = Record(done), wanted.version
        step = next_step(wanted, record, here=True, linked=linked)
    if isinstance(step, RunCheck):
        assert record is not None
        record = replace(record, seen=replace(record.seen, round=wanted.round))
        step = next_step(wanted, record, here=True, linked=linked)
    assert step is None


@given(st.none() | RECORDS)
def test_what_nobody_wants_goes(record: Record | None) -> None:
    assert next_step(None, record, here=False, linked="1") == (Unlink() if record else None)
