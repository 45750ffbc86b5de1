"""A job writes what it likes into its spool: that costs it a line, and neither the agent nor other attempts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.identity import Identity
from agent.uplink import push
from agent.uplink.batch import Ack, Batch
from agent.uplink.cursors import Source
from agent.uplink.events import DEEPEST, LONGEST_LINE, Misfit, parse
from agent.uplink.mask import Mask
from agent.uplink.push import Pusher
from agent.work_folder import WorkFolders
from tests.agent.uplink.bench import Bench
from tests.support.gateway import Gateway, running_gateway
from trainmaster_wire.agent.v1 import uplink_pb2

CHECKPOINT = '{"kind":"checkpoint","at_ms":1,"path":"checkpoints","step":%s}'
METRICS = '{"kind":"metrics","at_ms":1,"step":%s,"values":%s}'
ARTIFACT = '{"kind":"artifact","at_ms":1,"name":"%s","path":"%s"}'
HOSTILE = {
    "checkpoint step text": CHECKPOINT % '"abc"',
    "checkpoint step null": CHECKPOINT % "null",
    "checkpoint step infinite": CHECKPOINT % "1e400",
    "checkpoint step of 31 digits": CHECKPOINT % 10**30,
    "checkpoint step of a megabyte": CHECKPOINT % ("9" * 200_000),
    "at_ms list": '{"kind":"checkpoint","at_ms":[1],"path":"checkpoints","step":1}',
    "no path": '{"kind":"checkpoint","at_ms":1,"step":1}',
    "path NUL": ARTIFACT % ("a", "work/a\\u0000b"),
    "path surrogate": ARTIFACT % ("a", "work/\\ud800"),
    "path of 5,000 characters": ARTIFACT % ("a", "a/" * 2500),
    "path of the folder itself": '{"kind":"checkpoint","at_ms":1,"path":".","step":1}',
    "path upwards": ARTIFACT % ("a", "work/../../../../etc/passwd"),
    "path absolute": ARTIFACT % ("a", "/etc/passwd"),
    "name surrogate": ARTIFACT % ("\\udfff", "work"),
    "metrics nested": METRICS % (1, '{"a":' + "[" * 60_000 + "]" * 60_000 + "}"),
    "nested without an end": '{"kind":"checkpoint","step":' + "[" * 100_000,
    "metrics step beyond 64 bits": METRICS % (2**63, '{"loss":1}'),
    "metrics value of 400 digits": METRICS % (1, '{"loss":%s}' % (10**400)),
    "metrics values list": METRICS % (1, "[1.0]"),
    "init packages number": '{"kind":"init","at_ms":1,"packages":5}',
    "init params list": '{"kind":"init","at_ms":1,"params":["no"]}',
    "no object": "[1]",
    "no JSON": '{"kind":"checkpoint"',
    "kind list": '{"kind":["checkpoint"],"at_ms":1}',
    "longer than a piece": '{"kind":"metrics","at_ms":1,"step":1,"values":{"' + "x" * (3 << 20) + '":1}}',
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_after_a_hostile_line_the_next_one_arrives_and_the_attempt_ends(bench: Bench, line: str) -> None:
    bench.line(line)
    bench.metrics(8)
    bench.checkpoint(9)
    bench.drain()
    assert bench.steps() == [8]
    assert [told.checkpoint.step for told in bench.server.checkpoints() if told.checkpoint] == [9]
    assert (Source.ARTIFACT, 0) not in bench.server.kept
    assert bench.folder.logs.is_dir(), "its folder is still there"
    if not line.startswith('{"kind":['):  # a kind that nobody knows is passed over
        assert "The line at byte 0 of spool/rank-0.jsonl was left out: " in bench.notes()
    assert len(bench.notes()) < 1000


MIXED = {
    "metrics": {
        "step": 1,
        "values": {"loss": 1.0, "": 2.0, " ": 3.0, "m" * 251: 4.0, "n": 10**400, "text": "x"},
    },
    "tags": {"tags": {"loss": "1", "": "2", "m" * 251: "3", "long": "x" * 9_000}},
    "init": {
        "params": {"loss": 1},
        "packages": {"loss": "1", "": "2", "n": 5},
        "hardware": 7,
        "seed": 10**30,
    },
}


@pytest.mark.parametrize("kind", MIXED)
def test_an_entry_that_fits_nowhere_costs_no_other_of_its_line(bench: Bench, kind: str) -> None:
    bench.line(json.dumps({"kind": kind, "at_ms": 1, **MIXED[kind]}))
    bench.drain()
    [line] = bench.server.text(Source.SPOOL, 0).splitlines()
    report = json.loads(line)
    names = {"metrics": ("values",), "tags": ("tags",), "init": ("params", "packages")}[kind]
    assert all(set(report[name]) == {"loss"} for name in names)
    assert "was left out: " in bench.notes()


@given(
    st.binary(max_size=300) | st.text(alphabet='{}[]":,1e.-\\u0d8kindstepathcm ', max_size=80).map(str.encode)
)
def test_whatever_the_bytes_are_a_line_fits_or_is_refused(line: bytes) -> None:
    with contextlib.suppress(Misfit):
        parse(line)


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(
    st.sampled_from(
        ["init", "metrics", "checkpoint", "checkpoint_started", "watches_stop", "artifact", "rank_metrics"]
    ),
    st.dictionaries(
        st.sampled_from(["at_ms", "step", "path", "name", "values", "metrics", "params", "packages", "seed"]),
        _ANY,
    ),
)
def test_what_fits_can_be_written_as_json_and_sent(kind: str, fields: dict[str, object]) -> None:
    line = json.dumps(
        {"at_ms": 1, "step": 1, "path": "work", "name": "x", "values": {}, **fields, "kind": kind}
    )
    with contextlib.suppress(Misfit):
        event = parse(line.encode())
        if hasattr(event, "fields"):
            json.dumps(Mask(()).value(event.fields), ensure_ascii=False).encode()
        elif hasattr(event, "step"):
            uplink_pb2.CheckpointUploaded(step=event.step, saved_at_ms=event.at_ms)
        elif hasattr(event, "name"):
            uplink_pb2.ArtifactUploaded(name=event.name, source_url=event.path)


def test_nesting_counts_brackets_and_not_the_text_of_strings() -> None:
    deep = "[" * DEEPEST
    assert parse(json.dumps({"kind": "init", "at_ms": 1, "params": {"prompt": deep * 9 + '"\\'}}).encode())
    with pytest.raises(Misfit, match="nested deeper than 32 levels"):
        parse(('{"kind":"init","at_ms":1,"params":{"a":' + deep).encode())


def test_a_line_as_long_as_allowed_goes_up_and_a_longer_one_is_left_out(bench: Bench) -> None:
    frame = '{"kind":"init","at_ms":1,"params":{"text":"%s"}}'
    fitting = frame % ("x" * (LONGEST_LINE - len(frame) + 2))
    bench.line(fitting)
    bench.line(frame % ("x" * LONGEST_LINE))
    bench.metrics(3)
    bench.drain()
    text = bench.server.text(Source.SPOOL, 0)
    assert [json.loads(line)["kind"] for line in text.splitlines()] == ["init", "metrics"]
    assert "was left out: it is longer than 262,143 bytes" in bench.notes()


def test_of_a_million_hostile_lines_only_the_first_are_reported(bench: Bench) -> None:
    bench.line("no\n" * 5_000)
    bench.metrics(1)
    bench.drain()
    assert bench.steps() == [1]
    assert bench.notes().count("was left out") == 100
    assert bench.notes().endswith("More of this kind is not reported.\n")


def test_what_the_server_does_not_keep_stays_on_the_node(bench: Bench) -> None:
    bench.event(kind="rank_metrics", rank=1, step=1, values={"loss": 1.0})
    bench.event(kind="of_a_newer_sdk", anything=[1])
    bench.event(kind="metrics", step=2, values={"loss": 1.0}, unknown="x" * 1000)
    bench.drain()
    (batch,) = bench.server.kept[Source.SPOOL, 0].values()
    assert json.loads(batch.data) == {"kind": "metrics", "at_ms": 7, "step": 2, "values": {"loss": 1.0}}


def test_secrets_are_masked_in_names_of_artifacts_and_of_metrics(bench: Bench) -> None:
    bench.new_agent(Mask((("KEY", "hunter/2"),)))
    place = bench.folder.work / "hunter"
    place.mkdir()
    (place / "2").write_bytes(b"x")
    (bench.folder.work / "plot.png").write_bytes(b"x")
    bench.event(kind="artifact", name="hunter/2", path="work/plot.png")
    bench.event(kind="artifact", name="in a file name", path="work")
    bench.event(kind="checkpoint", step=1, path="work/plot.png", metrics={"hunter/2": 1.0})
    bench.line(
        json.dumps({"kind": "init", "at_ms": 1, "params": {"k": "hunter/2"}}).replace(
            "hunter", "h\\u0075nter"
        )
    )
    bench.drain()
    (artifact,) = bench.server.kept[Source.ARTIFACT, 0].values()
    (checkpoint,) = bench.server.checkpoints()
    assert artifact.artifact is not None
    assert checkpoint.checkpoint is not None
    assert artifact.artifact.name == "•••KEY•••"
    assert json.loads(checkpoint.checkpoint.metrics_json) == {"•••KEY•••": 1.0}
    assert "•••KEY•••" in bench.server.text(Source.SPOOL, 0)
    assert "the name of a file in it has the value of a secret" in bench.notes()


def test_without_knowing_the_secrets_no_name_of_an_ended_attempt_goes_up(bench: Bench) -> None:
    bench.new_agent(mask=None)
    bench.event(kind="checkpoint", step=1, path="work", metrics={"hunter2": 1.0})
    (bench.folder.work / "x").write_bytes(b"x")
    bench.event(kind="artifact", name="hunter2", path="work")
    assert bench.step() == []
    bench.drain()
    (artifact,) = bench.server.kept[Source.ARTIFACT, 0].values()
    (checkpoint,) = bench.server.checkpoints()
    assert artifact.artifact is not None
    assert checkpoint.checkpoint is not None
    assert (checkpoint.checkpoint.step, checkpoint.checkpoint.metrics_json) == (1, "{}")
    assert artifact.artifact.name.startswith("withheld-0-")


def test_a_batch_that_the_server_refuses_is_left_out_with_a_line(bench: Bench) -> None:
    bench.log("bad\n")
    (batch,) = bench.step()
    bench.uplink.acknowledge(Ack(batch.attempt_id, 0, Source.LOG, 0, error="it is not text"))
    bench.log("good\n")
    bench.drain()
    assert bench.server.text(Source.LOG, 0) == "good\n"
    assert (
        "The log of rank 0 from byte 0 to 4 was refused by the server and is left out: it is not text"
        in bench.notes()
    )


class Attempts:
    """Uplinks of several attempts on one real stream to a gateway."""

    def __init__(
        self, folders: WorkFolders, executor: ThreadPoolExecutor, gateway: Gateway, pusher: Pusher
    ) -> None:
        self._folders, self._executor, self.gateway, self.pusher = folders, executor, gateway, pusher

    def add(self, attempt_id: str) -> Bench:
        folder = self._folders.of(attempt_id)
        folder.create()
        bench = Bench(folder, folder.path.parent / "store", self._executor)
        self.pusher.add(bench.uplink)
        return bench

    async def until_log(self, attempt_id: str, text: str) -> None:
        await self.gateway.until(lambda: text in self.gateway.log(attempt_id, 0) or None)

    async def until_drained(self, benches: Iterable[Bench]) -> None:
        async with asyncio.timeout(30):
            while not all(bench.uplink.drained for bench in benches):
                await asyncio.sleep(0.02)


@pytest.fixture
async def attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Attempts]:
    monkeypatch.setattr(push, "_DELAYS", (0.1,))

    async def identity() -> Identity:
        return Identity("node-1", "credential-of-node-1")

    async with running_gateway() as gateway, grpc.aio.insecure_channel(gateway.address) as channel:
        with ThreadPoolExecutor(1) as executor:
            pusher = Pusher(channel, identity)
            running = asyncio.create_task(pusher.run())
            yield Attempts(WorkFolders(tmp_path / "data"), executor, gateway, pusher)
            assert not running.done(), "the agent lives on"
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_all_hostile_lines_at_once_over_a_real_stream(attempts: Attempts) -> None:
    hostile, other = attempts.add("att-test-hostile"), attempts.add("att-test-other")
    for line in HOSTILE.values():
        hostile.line(line)
    hostile.metrics(5)
    other.log("of somebody else\n")
    await attempts.until_log("att-test-other", "of somebody else")
    await attempts.gateway.until(lambda: '"step": 5' in attempts.gateway.spool("att-test-hostile", 0) or None)
    for bench in (hostile, other):
        bench.uplink.end()
    await attempts.until_drained([hostile, other])


async def test_a_fault_in_one_attempt_delays_that_attempt_and_no_other(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    faulty, other = attempts.add("att-test-faulty"), attempts.add("att-test-other")
    steps, faults = faulty.uplink.step, iter([RuntimeError("a fault of ours")] * 3)

    def step(now: float) -> list[Batch]:
        for fault in faults:
            raise fault
        return steps(now)

    monkeypatch.setattr(faulty.uplink, "step", step)
    faulty.log("late\n")
    other.log("in time\n")
    await attempts.until_log("att-test-other", "in time")
    await attempts.until_log("att-test-faulty", "late")
    assert caplog.text.count("the uplink of att-test-faulty cannot go on") == 1, "said once"


async def test_a_batch_that_no_message_can_hold_is_left_out(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "_LARGEST_MESSAGE", 1000)
    bench = attempts.add("att-test-large")
    bench.log("x" * 2000 + "\n")
    bench.uplink.end()
    await attempts.until_drained([bench])
    assert attempts.gateway.log("att-test-large", 0) == ""
    assert "was refused by the server and is left out: it has 2," in bench.folder.launcher_log.read_text()
