"""What the SDK writes into a spool reaches the gateway: the agent passes on each kind that the gateway reads."""

import ast
import json
from pathlib import Path

import pytest

from agent.uplink import events
from tests.architecture.rules.sources import ROOT
from trainmaster.data.quarantine import SetAside
from trainmaster.data.review import Review
from trainmaster.environment import job_environment


def kinds(path: str, function: str) -> set[str]:
    """That the `match` of the function names."""
    tree = ast.parse((ROOT / path).read_text())
    [body] = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == function]
    return {
        str(pattern.value.value)
        for pattern in ast.walk(body)
        if isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant)
    }


def test_the_agent_knows_each_kind_that_the_gateway_reads() -> None:
    read = kinds("webapp/rpc/spool.py", "_report")
    assert {"init", "set_aside", "training_alarm"} <= read
    assert read - kinds("agent/uplink/events.py", "parse") == set()


def test_what_a_loader_sets_aside_goes_up_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINMASTER_DIR", str(tmp_path))
    monkeypatch.setenv("TRAINMASTER_DATA", str(tmp_path / "data"))
    review = Review(job_environment(), range(20), "train", 0)
    review.tell(SetAside(13, "", "JSONDecodeError: no JSON"))
    review.tell(SetAside(0, str(tmp_path / "data" / "b.jsonl"), "OSError: gone"))
    lines = (tmp_path / "spool" / "rank-0.jsonl").read_bytes().splitlines()
    for line in lines:
        report = events.parse(line)
        assert isinstance(report, events.Report)
        assert dict(report.fields) == json.loads(line)
    assert [json.loads(line).get("shard") for line in lines] == [None, "b.jsonl"]
