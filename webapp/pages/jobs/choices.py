"""What the form of a job offers to choose from, and the templates that fill it in."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from platform_core.jobs.launching import METHODS
from platform_core.jobs.spec import PRIORITIES
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.checkpoints import queries as checkpoints
from webapp.datasets import queries as datasets
from webapp.datasets.models import DatasetSnapshot
from webapp.experiments import queries as experiments
from webapp.jobs import queries as jobs
from webapp.nodes import queries as nodes
from webapp.nodes.queries import Capacity
from webapp.pages.jobs.forms import CPU, Option

_RECENT = 20


@dataclass(frozen=True, slots=True)
class Preset:
    label: str
    fill: str  # JSON: the fields of the form with their values


def teams(actor: Actor, known: Iterable[str]) -> list[str]:
    return [slug for slug in known if permissions.may(actor, "job.submit", slug)]


def options(actor: Actor, teams: Sequence[str]) -> dict[str, list[Option]]:
    """By the name of the field in a job file."""
    saved = checkpoints.newest(teams, 100)
    snapshots = datasets_of(actor, teams)
    purposes = dict.fromkeys(word.strip() for row in snapshots for word in row.purpose.split(","))
    return {
        "team": [Option(slug, slug) for slug in teams],
        "gpu_type": [Option(slug, _capacity(capacity)) for slug, capacity in nodes.capacity().items()],
        "code": [code_option(row) for row in artifacts.bundles(teams)],
        "resume_from": [Option(row.id, f"{row.job.name}, step {row.step:,}") for row in saved],
        "dataset": [Option(label, "") for label in dataset_ids(snapshots)],
        "purpose": [Option(purpose, "") for purpose in purposes],
        "experiment": [
            Option(name, "") for name in experiments.visible(teams).values_list("name", flat=True).distinct()
        ],
        "priority": _priorities(actor, teams),
        "strategy": [Option(strategy, method.label) for strategy, method in METHODS.items()],
    }


def datasets_of(actor: Actor, teams: Iterable[str]) -> list[DatasetSnapshot]:
    seen = datasets.snapshots(team for team in teams if permissions.may(actor, "dataset.view", team))
    return [row for row in seen if row.manifest_id is not None]


def dataset_ids(snapshots: Iterable[DatasetSnapshot]) -> dict[str, str]:
    """The id of each snapshot by what the form calls it."""
    return {f"{row.name} v{row.version} of {row.team_id}": row.id for row in snapshots}


def code_option(upload: Any) -> Option:
    return Option(upload.manifest_id, f"{upload.name or upload.id} of {upload.team_id}")


def recent(teams: Sequence[str]) -> list[Option]:
    """Jobs to begin from, newest first."""
    rows = jobs.visible(teams).order_by("-submitted_ms", "-id")[:_RECENT]
    return [Option(row.id, f"{row.name}, {row.team_id}") for row in rows]


def presets() -> list[Preset]:
    """The usual shapes of a job on the largest GPU type of this cluster; on its CPU slots where it has no GPUs."""
    capacity = nodes.capacity()
    gpus = [each for slug, each in capacity.items() if slug != CPU]
    largest = max(gpus or capacity.values(), key=lambda each: each.slots, default=None)
    if largest is None:
        return []
    unit, per_node = ("GPU" if gpus else "slot"), max(1, largest.slots // largest.nodes)
    made = [
        _preset(f"Single {unit}", largest.gpu_type, 1),
        _preset(f"One node, all {unit}s", largest.gpu_type, per_node),
        _preset("Multi-node DDP", largest.gpu_type, per_node * min(2, largest.nodes)),
    ]
    return [*made, _preset("CPU test", CPU, 1, max_runtime_hours="0.5")] if CPU in capacity else made


def _preset(label: str, gpu_type: str, num_gpus: int, **more: str) -> Preset:
    fields = {
        "gpu_type": gpu_type,
        "num_gpus": str(num_gpus),
        "strategy": "torchrun",
        "max_runtime_hours": "",
    }
    return Preset(label, json.dumps(fields | more))


def _capacity(capacity: Capacity) -> str:
    return f"{capacity.gpu_type} ({capacity.free} of {capacity.slots} free)"


def _priorities(actor: Actor, teams: Sequence[str]) -> list[Option]:
    """By name, with the number behind; one that the actor may use in no team cannot be chosen."""
    return [
        Option(
            str(number),
            f"{name.capitalize()} ({number})",
            disabled=not any(permissions.may_prioritise(actor, team, number) for team in teams),
        )
        for name, number in PRIORITIES.items()
    ]
