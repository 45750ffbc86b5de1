"""The files for Prometheus and Grafana can be read, and name only metrics that /metrics documents."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.rules.sources import ROOT

FOLDER = ROOT / "docker" / "observability"
BOARDS = sorted(FOLDER.glob("boards/*.json"))
DOCUMENTED = set(
    re.findall(r"^\| (trainmaster_\w+)", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE)
)


def unknown(expression: str) -> set[str]:
    return set(re.findall(r"trainmaster_\w+", expression)) - DOCUMENTED


def balanced(expression: str) -> bool:
    return all(expression.count(left) == expression.count(right) for left, right in ("()", "[]", "{}"))


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_board_asks_for_metrics_that_exist(path: Path) -> None:
    board = json.loads(path.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert expressions
    for expression in expressions:
        assert unknown(expression) == set(), expression
        assert balanced(expression), expression


def test_boards_are_told_apart() -> None:
    assert len({json.loads(path.read_text())["uid"] for path in BOARDS}) == len(BOARDS) >= 3


def test_a_rule_asks_for_metrics_that_exist_and_says_what_it_means() -> None:
    document: Any = yaml.safe_load((FOLDER / "rules.yml").read_text())
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        assert unknown(rule["expr"]) == set(), rule["expr"]
        assert balanced(rule["expr"]), rule["expr"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")


def test_prometheus_reads_the_rules_and_scrapes_the_platform() -> None:
    document: Any = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert document["rule_files"] == ["rules.yml"]
    assert document["scrape_configs"][0]["authorization"]["credentials_file"]
