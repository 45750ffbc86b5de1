"""What a run was made of, what runs it belongs to, and what was made from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.datasets import queries as datasets
from webapp.experiments.models import Run
from webapp.registry import queries as registry

MOST_RELATIVES = 200


@dataclass(frozen=True, slots=True)
class Fact:
    label: str
    value: str
    url: str = ""
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class Relative:
    relation: str  # parent or child
    run: Run
    url: str


@dataclass(frozen=True, slots=True)
class ModelLine:
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class LineagePart:
    family: str  # address of its family tree
    facts: Sequence[Fact]
    packages: Sequence[tuple[str, str]]
    diff: str  # what was not committed
    relatives: Sequence[Relative]
    models: Sequence[ModelLine]


def part(actor: Actor, run: Run) -> LineagePart:
    recorded = run.lineage
    packages = recorded.get("reported_packages") or recorded.get("packages")
    return LineagePart(
        family=reverse("lineage:detail", args=["run", run.id]),
        facts=facts(run),
        packages=sorted((str(name), str(version)) for name, version in packages.items())
        if isinstance(packages, dict)
        else [],
        diff=_text(recorded.get("git_diff")),
        relatives=_relatives(run),
        models=_models(run),
    )


def facts(run: Run) -> list[Fact]:
    recorded = run.lineage
    code, dataset = _text(recorded.get("code")), _text(recorded.get("dataset"))
    rows = (
        Fact("Commit", _text(recorded.get("git_commit")), is_code=True),
        Fact("Branch", _text(recorded.get("git_branch")), is_code=True),
        Fact("Repository", _text(recorded.get("git_remote") or recorded.get("git_repo_url")), is_code=True),
        Fact("Code", artifacts.names([code], [run.experiment.team_id]).get(code, code) if code else ""),
        Fact("Command", _command(recorded.get("command")), is_code=True),
        Fact("Submitted from", _text(recorded.get("submitted_from")), is_code=True),
        _dataset(dataset),
        Fact("Purpose", _text(recorded.get("purpose"))),
        Fact("Seed", _text(recorded.get("reported_seed", recorded.get("seed")))),
        Fact("Python", _text(recorded.get("reported_python") or recorded.get("python"))),
        Fact("Hardware", _text(recorded.get("reported_hardware") or recorded.get("hardware"))),
        Fact("Host", _text(recorded.get("hostname") or recorded.get("host"))),
    )
    return [fact for fact in rows if fact.value]


def _dataset(snapshot_id: str) -> Fact:
    snapshot = datasets.snapshot(snapshot_id) if snapshot_id else None
    if snapshot is None:
        return Fact("Dataset", snapshot_id)
    url = reverse("datasets:detail", args=[snapshot.team_id, snapshot.name])
    return Fact("Dataset", f"{snapshot.name} v{snapshot.version}", url)


def _command(command: Any) -> str:
    return " ".join(map(str, command)) if isinstance(command, list) else _text(command)


def _text(value: Any) -> str:
    """Lineage of older platforms has what scripts sent, unchecked."""
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _relatives(run: Run) -> list[Relative]:
    children = run.children.filter(deleted_ms=None).order_by("created_ms", "id")[:MOST_RELATIVES]
    parents = [run.parent] if run.parent and run.parent.deleted_ms is None else []
    return [
        Relative(relation, relative, reverse("runs:detail", args=[relative.id]))
        for relation, runs in (("parent", parents), ("child", children))
        for relative in runs
    ]


def _models(run: Run) -> list[ModelLine]:
    return [
        ModelLine(
            f"{version.model.name} v{version.version}",
            reverse("registry:detail", args=[version.model.team_id, version.model.name]),
        )
        for version in registry.made_from(run.id)
    ]
