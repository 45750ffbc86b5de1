"""Imports of runs that were resumed, that have entries which no platform keeps, or that break off half-way."""

import struct
from pathlib import Path

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard._proto_graph import attr_value_proto  # noqa: F401  (loads the writer's protobufs)

from tests.webapp.test_importing import Trainmaster, points, trainmaster
from trainmaster.importers import sending
from trainmaster.importers.wandb_datastore import _HEADER
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics

__all__ = ["trainmaster"]


def field(number: int, content: bytes) -> bytes:
    length, size = len(content), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    key = number << 3 | 2
    head = bytes([key]) if key < 128 else bytes([key & 127 | 128, key >> 7])
    return head + size + bytes([length]) + content


def session(folder: Path, steps: dict[int, str], config: str, started: int, project: str = "p") -> None:
    """A folder as the client of W&B writes it: step → the JSON of its loss."""
    run_config = field(1, field(1, b"lr") + field(16, config.encode()))
    time = b"\x08" + bytes([started & 127 | 128, started >> 7])
    run = field(1, b"abc12345") + field(3, project.encode()) + field(4, run_config) + field(17, time)
    records = [field(17, run)]
    for step, loss in steps.items():
        items = field(1, field(1, b"_step") + field(16, str(step).encode()))
        records.append(field(2, items + field(1, field(1, b"loss") + field(16, loss.encode()))))
    records.append(field(18, b""))
    folder.mkdir(parents=True)
    data = b"".join(struct.pack("<IHB", 0, len(record), 1) + record for record in records)
    (folder / "run-abc12345.wandb").write_bytes(_HEADER + data)


def test_a_resumed_run_of_two_folders_is_one_whose_later_session_replaces_what_it_repeats(
    trainmaster: Trainmaster, tmp_path: Path
) -> None:
    first = {step: str(10 - step) for step in range(6)}
    session(tmp_path / "offline-run-1-abc12345", first, "0.1", 200)
    command = ("import", "wandb", str(tmp_path))
    trainmaster(*command)
    session(tmp_path / "offline-run-2-abc12345", {step: str(100 - step) for step in range(3, 9)}, "0.2", 300)
    trainmaster(*command)
    trainmaster(*command)
    run = Run.objects.get()
    assert points(run, "loss") == [
        (0, 10), (1, 9), (2, 8), (3, 97), (4, 96), (5, 95), (6, 94), (7, 93), (8, 92),
    ]  # fmt: skip
    assert (run.parameters, run.state) == ({"lr": 0.2}, "succeeded")


def test_runs_of_one_id_in_two_projects_are_two(trainmaster: Trainmaster, tmp_path: Path) -> None:
    session(tmp_path / "run-1-abc12345", {0: "1"}, "0.1", 200)
    session(tmp_path / "run-2-abc12345", {0: "2"}, "0.1", 300, project="q")
    trainmaster("import", "wandb", str(tmp_path), "--experiment", "both")
    assert sorted(points(run, "loss")[0][1] for run in Run.objects.all()) == [1.0, 2.0]


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "1" + "0" * 400, "9" * 5_000, '"' + "x" * 7_000 + '"', "[1, [2]]", "null"]
)
def test_a_setting_or_value_that_is_no_plain_number_costs_nothing_else(
    trainmaster: Trainmaster, tmp_path: Path, value: str
) -> None:
    session(tmp_path / "run-1-abc12345", {0: "0.5", 1: value, 2: "0.25"}, value, 200)
    trainmaster("import", "wandb", str(tmp_path))
    run = Run.objects.get()
    assert {(0, 0.5), (2, 0.25)} <= set(points(run, "loss"))
    assert run.state == "succeeded"


def test_a_writer_that_went_on_after_a_crash_replaces_the_steps_it_purges(
    trainmaster: Trainmaster, tmp_path: Path
) -> None:
    with SummaryWriter(str(tmp_path / "run")) as writer:
        for step in range(6):
            writer.add_scalar("loss", 10 - step, step)
    trainmaster("import", "tensorboard", str(tmp_path))
    with SummaryWriter(str(tmp_path / "run"), purge_step=3, filename_suffix=".later") as writer:
        for step in range(3, 5):
            writer.add_scalar("loss", 100 - step, step)
    trainmaster("import", "tensorboard", str(tmp_path), "--experiment", "fresh")
    run = Run.objects.get(experiment__name="fresh")
    assert points(run, "loss") == [(0, 10), (1, 9), (2, 8), (3, 97), (4, 96)]
    trainmaster("import", "tensorboard", str(tmp_path))
    grown = Run.objects.exclude(pk=run.pk).get()
    assert points(grown, "loss")[:5] == [(0, 10), (1, 9), (2, 8), (3, 97), (4, 96)]


@pytest.mark.parametrize("tag", ["", " ", "\t\n"])
def test_a_blank_tag_is_named_and_costs_no_other(trainmaster: Trainmaster, tmp_path: Path, tag: str) -> None:
    for name in ("a", "b"):
        with SummaryWriter(str(tmp_path / name)) as writer:
            for key, value in (("first", 1.0), (tag, 2.0), ("last", 3.0)):
                summary = Summary(value=[Summary.Value(tag=key, simple_value=value)])
                writer.file_writer.add_event(Event(wall_time=1.0, step=0, summary=summary))
    told = trainmaster("import", "tensorboard", str(tmp_path)).stderr
    assert [metrics.keys([run.id]) for run in Run.objects.all()] == [["first", "last"]] * 2
    assert "a: " in told
    assert "b: " in told


def test_an_import_that_breaks_off_leaves_no_run_running_and_is_completed_by_another(
    trainmaster: Trainmaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        with SummaryWriter(str(tmp_path / name)) as writer:
            writer.add_scalar("loss", 1.0, 0)
            writer.add_text("note", "hello", 0)
    command = ("import", "tensorboard", str(tmp_path))
    with monkeypatch.context() as broken:
        broken.setattr(sending._Sender, "_send_value", _fails)
        told = trainmaster(*command, code=1).stderr
    assert set(Run.objects.values_list("state", flat=True)) == {"failed"}
    assert "the same import completes it" in told.replace("\n", " ")
    trainmaster(*command)
    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}
    assert Run.objects.count() == 2


def _fails(sender: object, value: object) -> None:
    raise OSError("the source is gone")
