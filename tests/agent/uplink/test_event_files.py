"""Event files of TensorBoard, written by the real writers while the uplink reads them."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from torch.utils.tensorboard import SummaryWriter

from agent.uplink import event_files
from agent.uplink.batch import EVENT_FILES_RANK_BASE
from agent.uplink.cursors import Source
from tests.agent.conftest import AgentProcess, wanted
from tests.agent.uplink.bench import Bench
from tests.support.gateway import Gateway

Points = dict[str, list[tuple[int, float]]]


def lines(bench: Bench) -> list[dict[str, object]]:
    text = bench.server.text(Source.SPOOL, EVENT_FILES_RANK_BASE)
    return [json.loads(line) for line in text.splitlines()]


def points(bench: Bench) -> Points:
    curves: Points = {}
    for line in lines(bench):
        if line["kind"] == "metrics":
            for key, value in line["values"].items():  # type: ignore[attr-defined]
                curves.setdefault(key, []).append((int(str(line["step"])), round(value, 4)))
    return curves


def event_file(folder: Path) -> Path:
    (file,) = folder.glob("events.out.tfevents.*")
    return file


def test_scalars_of_an_unchanged_script_go_up_while_it_writes(bench: Bench) -> None:
    writer = SummaryWriter(str(bench.folder.work / "runs" / "Nov23_10-00-00_host"))
    writer.add_scalar("Loss/train", 0.5, 1)
    writer.add_scalar("lr", 0.1, 1)
    writer.flush()
    bench.exchange()
    assert points(bench) == {"Loss/train": [(1, 0.5)], "lr": [(1, 0.1)]}
    writer.add_scalar("Loss/train", 0.25, 2)
    writer.close()
    bench.drain()
    assert points(bench)["Loss/train"] == [(1, 0.5), (2, 0.25)]


@pytest.mark.parametrize("tag", ["", " ", "x" * 300])
def test_a_tag_that_is_no_name_costs_no_other_of_its_step(bench: Bench, tag: str) -> None:
    writer = SummaryWriter(str(bench.folder.work / "runs"))
    for name in ("loss", tag, "lr"):
        writer.add_scalar(name, 0.5, 1)
    writer.close()
    bench.drain()
    curves = points(bench)
    assert curves["loss"] == curves["lr"] == [(1, 0.5)]
    assert set(curves) <= {"loss", "lr", "x" * 250}


def test_a_new_agent_reads_on_where_the_last_one_stopped(bench: Bench) -> None:
    writer = SummaryWriter(str(bench.folder.work / "runs"))
    for step in range(20):
        writer.add_scalar("loss", step / 4, step)
        writer.flush()
        bench.exchange()
        if step % 3 == 0:
            bench.new_agent()
    writer.close()
    bench.drain()
    assert points(bench)["loss"] == [(step, step / 4) for step in range(20)]


def test_an_agent_killed_between_its_two_files_sends_each_event_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SummaryWriter(str(bench.folder.work))
    writer.add_scalar("loss", 1.0, 1)
    writer.flush()

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(event_files, "write_atomically", fail)
        with pytest.raises(OSError, match="no space"):
            bench.step()
    bench.new_agent()
    writer.add_scalar("loss", 2.0, 2)
    writer.close()
    bench.drain()
    assert points(bench)["loss"] == [(1, 1.0), (2, 2.0)]


def test_folders_beside_the_first_are_told_apart(bench: Bench) -> None:
    for name, value in (("train", 1.0), ("val", 2.0)):
        with SummaryWriter(str(bench.folder.work / "runs" / name)) as writer:
            writer.add_scalar("loss", value, 0)
    bench.drain()
    assert points(bench) == {"train/loss": [(0, 1.0)], "val/loss": [(0, 2.0)]}


def test_folders_below_the_first_are_told_apart(bench: Bench) -> None:
    with SummaryWriter(str(bench.folder.work / "runs" / "first")) as writer:
        writer.add_scalar("loss", 1.0, 0)
        writer.add_scalars("accuracy", {"top1": 0.5, "top5": 0.75}, 0)
    bench.drain()
    assert points(bench) == {
        "loss": [(0, 1.0)],
        "accuracy_top1/accuracy": [(0, 0.5)],
        "accuracy_top5/accuracy": [(0, 0.75)],
    }


def test_event_files_that_came_with_the_code_are_not_of_this_attempt(bench: Bench) -> None:
    old = bench.folder.code / "runs" / "events.out.tfevents.1000000000.laptop.1.0"
    with SummaryWriter(str(bench.folder.work)) as writer:
        writer.add_scalar("loss", 1.0, 0)
    old.parent.mkdir()
    old.write_bytes(event_file(bench.folder.work).read_bytes())
    bench.folder.attempt_file.write_text("{}")
    bench.new_agent()
    bench.drain()
    assert points(bench) == {"loss": [(0, 1.0)]}


def test_a_corrupt_tail_ends_that_file_and_no_other(bench: Bench) -> None:
    for name in ("a", "b"):
        with SummaryWriter(str(bench.folder.work / name)) as writer:
            writer.add_scalar("loss", 1.0, 0)
            writer.add_scalar("loss", 2.0, 1)
    damaged = event_file(bench.folder.work / "a")
    damaged.write_bytes(damaged.read_bytes()[:-40] + b"\xff" * 5_000)
    bench.drain()
    assert points(bench)["b/loss"] == [(0, 1.0), (1, 2.0)]
    assert "is damaged at byte" in bench.notes()


@pytest.mark.parametrize("bytes_missing", [1, 10, 30])
def test_a_half_written_event_waits_for_its_other_half(bench: Bench, bytes_missing: int) -> None:
    with SummaryWriter(str(bench.folder.work)) as writer:
        writer.add_scalar("loss", 1.0, 0)
        writer.add_scalar("loss", 2.0, 1)
    file = event_file(bench.folder.work)
    whole = file.read_bytes()
    file.write_bytes(whole[:-bytes_missing])
    bench.exchange()
    assert points(bench)["loss"] == [(0, 1.0)]
    file.write_bytes(whole)
    bench.drain()
    assert points(bench)["loss"] == [(0, 1.0), (1, 2.0)]


def test_many_events_go_up_in_pieces_and_the_spool_stays_small_on_disk(bench: Bench) -> None:
    with SummaryWriter(str(bench.folder.work), max_queue=10_000) as writer:
        for step in range(10_000):
            writer.add_scalar("loss", step, step)
    bench.drain()
    assert points(bench)["loss"] == [(step, float(step)) for step in range(10_000)]
    assert bench.folder.events_spool.stat().st_blocks * 512 < bench.folder.events_spool.stat().st_size / 2


def test_a_link_to_a_file_elsewhere_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path / "elsewhere")) as writer:
        writer.add_scalar("loss", 1.0, 0)
    (bench.folder.work / "events.out.tfevents.1").symlink_to(event_file(tmp_path / "elsewhere"))
    bench.drain()
    assert points(bench) == {}


def test_secret_values_are_masked_in_names(bench: Bench) -> None:
    from agent.uplink.mask import Mask

    bench.new_agent(Mask((("KEY", "hunter22"),)))
    with SummaryWriter(str(bench.folder.work)) as writer:
        writer.add_scalar("loss-hunter22", 1.0, 0)
    bench.drain()
    assert points(bench) == {"loss-•••KEY•••": [(0, 1.0)]}


def test_values_that_are_no_numbers_go_up_as_they_are(bench: Bench) -> None:
    with SummaryWriter(str(bench.folder.work)) as writer:
        writer.add_scalar("loss", float("nan"), 0)
        writer.add_scalar("loss", np.inf, 1)
    bench.drain()
    (first, second) = points(bench)["loss"]
    assert np.isnan(first[1])
    assert second == (1, float("inf"))


def test_histograms_texts_and_images_go_up_as_values_of_their_step(bench: Bench) -> None:
    with SummaryWriter(str(bench.folder.work)) as writer:
        writer.add_histogram("weights", np.arange(10.0), 3)
        writer.add_text("note", "hello **you**", 3)
        writer.add_image("picture", np.zeros((3, 4, 4)), 3)
        writer.add_image("noise", np.random.default_rng(1).random((3, 400, 400)), 3)
    bench.drain()
    values = {str(line["key"]): line for line in lines(bench) if line["kind"] == "value"}
    assert {key: line["type"] for key, line in values.items()} == {
        "weights": "histogram", "note": "text", "picture": "image",
    }  # fmt: skip
    assert values["note"]["document"] == {"text": "hello **you**"}
    assert sum(values["weights"]["document"]["counts"]) == 10  # type: ignore[index]
    assert b64decode(str(values["picture"]["data"])).startswith(b"\x89PNG")


SCRIPT = """
import pathlib, sys, time
from torch.utils.tensorboard import SummaryWriter

with SummaryWriter() as writer:
    for step in range(3):
        writer.add_scalar("Loss/train", 1 / (1 + step), step)
    writer.flush()
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.05)
    writer.add_scalar("Loss/train", 0.25, 3)
"""


async def test_a_job_with_an_unchanged_script_sends_its_curve_also_after_a_restart_of_the_agent(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    rank = EVENT_FILES_RANK_BASE
    await agent.start()
    await gateway.want(wanted("att-test-1", "python", "-c", SCRIPT, str(go_on)))
    await gateway.until(lambda: '"step": 2' in gateway.spool("att-test-1", rank), 60)
    await agent.kill()
    await agent.start()
    go_on.touch()
    await gateway.until_drained("att-test-1")
    events = [json.loads(line) for line in gateway.spool("att-test-1", rank).splitlines()]
    assert [(event["step"], round(event["values"]["Loss/train"], 3)) for event in events] == [
        (0, 1.0), (1, 0.5), (2, 0.333), (3, 0.25)
    ]  # fmt: skip
