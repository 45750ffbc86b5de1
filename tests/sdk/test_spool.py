import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.uplink import events
from trainmaster.spool import Spool, metrics_lines


def test_each_event_is_a_line_at_once(tmp_path: Path) -> None:
    file = tmp_path / "spool" / "rank-0.jsonl"
    spool = Spool(file)
    spool.append({"kind": "metrics", "step": 1})
    assert json.loads(file.read_text()) == {"kind": "metrics", "step": 1}
    spool.append({"kind": "metrics", "step": 2, "where": Path("/x")})
    assert json.loads(file.read_text().splitlines()[1])["where"] == "/x"


@given(
    st.integers(0, 2**63),
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.floats() | st.integers(), max_size=5
    ),
)
def test_the_fast_line_of_metrics_is_the_line_of_json(step: int, values: dict[str, float]) -> None:
    event = {"kind": "metrics", "at_ms": 7, "step": step, "values": values}
    assert list(metrics_lines(step, 7, values)) == [json.dumps(event) + "\n"]


def test_more_metrics_than_a_line_may_hold_are_several_lines() -> None:
    values = {f"layers/{number}/" + "ä" * 200: float(number) for number in range(2_500)}
    lines = list(metrics_lines(1, 7, values))
    assert max(map(len, lines)) < events.LONGEST_LINE
    read = [events.parse(line.encode()) for line in lines]
    assert {name: value for report in read for name, value in report.fields["values"].items()} == values


def test_a_torn_line_of_a_killed_process_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "rank-0.jsonl"
    file.write_text('{"kind": "metr')
    Spool(file).append({"step": 2})
    assert file.read_text().splitlines() == ['{"kind": "metr', '{"step": 2}']


def test_training_goes_on_where_nothing_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    spool = Spool(tmp_path / "file" / "rank-0.jsonl")
    spool.append({"step": 1})
    spool.append({"step": 2})
    assert spool.dropped == 2
    assert capsys.readouterr().err.count("cannot be written") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_costs_events_and_not_the_training() -> None:
    spool = Spool(Path("/dev/full"))
    spool.append({"step": 1})
    assert spool.dropped == 1


def test_half_a_surrogate_pair_is_no_reason_to_stop(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.jsonl")
    spool.append({"name": "\ud800"})
    assert spool.dropped == 0
