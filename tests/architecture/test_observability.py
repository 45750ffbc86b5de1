"""The files for Prometheus and Grafana can be read, and name only metrics that /metrics documents."""

import json
import re
import shutil
import subprocess
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
PROMTOOL = shutil.which("promtool")


def unknown(expression: str) -> set[str]:
    return set(re.findall(r"trainmaster_\w+", expression)) - DOCUMENTED


def balanced(expression: str) -> bool:
    return all(expression.count(left) == expression.count(right) for left, right in ("()", "[]", "{}"))


def refusal(rules: Path) -> str:
    """Why Prometheus would not take these rules: by promtool where it is, elsewhere by a parser of YAML."""
    if PROMTOOL is not None:
        done = subprocess.run(
            [PROMTOOL, "check", "rules", rules], capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr if done.returncode else ""
    try:
        groups = yaml.safe_load(rules.read_text())["groups"]
        every = [(rule["expr"], rule["alert"]) for group in groups for rule in group["rules"]]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        return f"it is not of the form of rules: {error!r}"
    return next((f"{alert}: {expr}" for expr, alert in every if not balanced(expr)), "")


def test_prometheus_takes_the_rules() -> None:
    assert refusal(FOLDER / "rules.yml") == ""


@pytest.mark.parametrize("with_promtool", [True, False])
def test_what_prometheus_would_refuse_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_promtool: bool
) -> None:
    """Both ways, so that neither can be blind: the second is what a machine without Prometheus has."""
    if with_promtool and PROMTOOL is None:
        pytest.skip("promtool is not installed: on Debian it is in the package prometheus")
    if not with_promtool:
        monkeypatch.setattr("tests.architecture.test_observability.PROMTOOL", None)
    rules = tmp_path / "rules.yml"
    rules.write_text((FOLDER / "rules.yml").read_text())
    assert refusal(rules) == ""
    rules.write_text((FOLDER / "rules.yml").read_text().replace("expr: sum(", "expr: sum((", 1))
    assert "sum((" in refusal(rules) or "TrainmasterServerErrors" in refusal(rules)
    rules.write_text("groups: [{name: a, rules: [{alert: B}]}]")
    assert refusal(rules)


@pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: on Debian it is in the package prometheus"
)
def test_promtool_takes_the_configuration(tmp_path: Path) -> None:
    """With the token where the file says, which is a place of the machine of Prometheus."""
    for name in ("prometheus.yml", "rules.yml"):
        text = (FOLDER / name).read_text().replace("/etc/prometheus/trainmaster.token", "trainmaster.token")
        (tmp_path / name).write_text(text)
    (tmp_path / "trainmaster.token").write_text("token")
    command = [str(PROMTOOL), "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def expressions(path: Path) -> list[str]:
    return [target["expr"] for panel in json.loads(path.read_text())["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_board_asks_for_metrics_that_exist(path: Path) -> None:
    assert expressions(path)
    for expression in expressions(path):
        assert unknown(expression) == set(), expression
        assert balanced(expression), expression


@pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: on Debian it is in the package prometheus"
)
@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_promtool_parses_what_a_board_asks(path: Path, tmp_path: Path) -> None:
    """As rules that record it, with Grafana's variables filled in."""
    asked = [re.sub(r"\$\w+", "5m", expression) for expression in expressions(path)]
    rules = [{"record": f"panel_{number}", "expr": expression} for number, expression in enumerate(asked)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": path.stem, "rules": rules}]}))
    assert refusal(tmp_path / "rules.yml") == ""


def test_boards_are_told_apart() -> None:
    assert len({json.loads(path.read_text())["uid"] for path in BOARDS}) == len(BOARDS) >= 3


def test_a_rule_asks_for_metrics_that_exist_and_says_what_it_means() -> None:
    document: Any = yaml.safe_load((FOLDER / "rules.yml").read_text())
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        assert unknown(rule["expr"]) == set(), rule["expr"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")


def test_prometheus_reads_the_rules_and_scrapes_the_platform() -> None:
    document: Any = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert document["rule_files"] == ["rules.yml"]
    assert document["scrape_configs"][0]["authorization"]["credentials_file"]
