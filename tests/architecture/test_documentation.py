"""What a person may meet has its heading in docs/, and no heading is stale."""

from enum import StrEnum
from pathlib import Path

import pytest

from platform_core.cluster.health import NodeState
from platform_core.distribution.deployments.deployment import DeploymentState, WorkerState
from platform_core.distribution.rollouts.states import RolloutState
from platform_core.errors import CATALOGUE
from platform_core.experiments.states import RunState
from platform_core.jobs.ends import EndReason
from platform_core.jobs.states import JobState
from platform_core.registry.stages import Stage
from platform_core.retraining.cycle import CycleState
from platform_core.service_levels.objectives import BY_CODE
from platform_core.serving.states import EndpointState, ReplicaState
from platform_core.sweeps.states import SweepState, TrialState
from tests.architecture.rules import documentation as rule
from tests.architecture.rules.sources import ROOT, Source
from tools import mlflow_reference, reference
from trainmaster.cli import main as command_line

DOCS = ROOT / "docs" / "reference"


def source(name: str) -> Source:
    return Source(ROOT / name, name, (ROOT / name).read_text())


@pytest.mark.parametrize(
    ("page", "enum"),
    [
        ("jobs", JobState),
        ("sweeps", SweepState),
        ("trials", TrialState),
        ("nodes", NodeState),
        ("deployments", DeploymentState),
        ("workers", WorkerState),
        ("rollouts", RolloutState),
        ("runs", RunState),
        ("endpoints", EndpointState),
        ("cycles", CycleState),
        ("replicas", ReplicaState),
        ("model-versions", Stage),
    ],
)
def test_every_state_has_its_heading(page: str, enum: type[StrEnum]) -> None:
    assert rule.both(DOCS / "states" / f"{page}.md", rule.states(enum), "state") == []


def test_every_setting_has_its_heading() -> None:
    names = (
        rule.settings_of_the_platform(source("webapp/config/settings.py"))
        | rule.settings_of_the_agent(source("agent/config.py"))
        | rule.settings_of_the_sdk(source("sdk/trainmaster/environment.py"))
    )
    assert rule.both(DOCS / "settings.md", names, "setting", r"[A-Z_]+") == []


def test_every_error_code_has_its_heading() -> None:
    assert rule.both(DOCS / "errors.md", set(CATALOGUE), "error code", r"[a-z_]+") == []


def test_every_end_reason_has_its_heading() -> None:
    assert rule.both(DOCS / "end-reasons.md", rule.states(EndReason), "end reason", r"[a-z_]+") == []


def test_every_service_level_has_its_heading() -> None:
    assert rule.both(DOCS / "service-levels.md", set(BY_CODE), "service level", r"[a-z_]+") == []


def test_every_command_has_its_heading() -> None:
    names = set(rule.commands(command_line, "trainmaster"))
    assert {"trainmaster up", "trainmaster agent", "trainmaster certs"} <= names
    assert rule.both(DOCS / "cli.md", names, "command", r"trainmaster .+") == []


def test_every_command_that_a_page_names_exists() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    unknown = {page.name: rule.unknown_commands(page.read_text(), command_line) for page in pages}
    assert {name: commands for name, commands in unknown.items() if commands} == {}


def test_a_command_that_is_none_is_found_in_a_page() -> None:
    text = "`trainmaster jobs show`, `trainmaster shw`\n\n    trainmaster sweep a.yaml\n    trainmaster jobs stacks\n"
    assert rule.unknown_commands(text, command_line) == ["trainmaster jobs show", "trainmaster shw"]


def test_every_call_on_the_wire_has_its_heading() -> None:
    names = rule.calls_of(ROOT / "proto")
    assert {"AgentSession.Connect", "GRPCInferenceService.ModelInfer"} <= names
    assert rule.both(DOCS / "protocol.md", names, "call", r"\w+\.\w+") == []


@pytest.mark.parametrize(
    ("path", "below"), reference.pages().items(), ids=lambda value: getattr(value, "name", "")
)
def test_the_reference_pages_are_what_the_code_makes(path: Path, below: str) -> None:
    assert path.exists(), "run `make docs`"
    assert path.read_text() == reference.compose(path, below), "run `make docs`"


def test_the_page_of_the_mlflow_api_is_what_the_door_serves() -> None:
    assert mlflow_reference.PAGE.read_text() == mlflow_reference.page(), "run `make docs`"


def test_a_missing_and_a_stale_heading_are_found(tmp_path: Path) -> None:
    page = tmp_path / "states.md"
    page.write_text("# States\n\n## pending\n\n## `gone`\n\n## How to read this\n")
    assert rule.both(page, {"pending", "running"}, "state") == [
        "docs/states.md has no heading for the state running",
        "docs/states.md has a heading for the state gone, which is no more",
    ]


def test_a_setting_is_found_however_it_is_read(tmp_path: Path) -> None:
    text = 'A = text("A_B", "")\nB = integer("N", 1, 2, 3)\nC = os.environ.get("OPTIONAL", "")\nD = secret("KEY")\n'
    assert rule.settings_of_the_platform(Source(tmp_path, "s.py", text)) == {"A_B", "N", "OPTIONAL", "KEY"}
    text = 'def load():\n    return f(source.text("rack"), source.number("slots", 0, 0, 1))\n'
    assert rule.settings_of_the_agent(Source(tmp_path, "c.py", text)) == {
        "TRAINMASTER_AGENT_RACK",
        "TRAINMASTER_AGENT_SLOTS",
    }


def test_a_call_is_found_in_its_proto(tmp_path: Path) -> None:
    (tmp_path / "a.proto").write_text("service Uplink {\n  rpc Push(stream Batch) returns (stream Ack);\n}\n")
    assert rule.calls_of(tmp_path) == {"Uplink.Push"}
