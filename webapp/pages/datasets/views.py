"""The pages of datasets: what there is, its versions and files, and the jobs that used it."""

from dataclasses import dataclass
from itertools import groupby

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.datasets import queries
from webapp.datasets.models import DatasetSnapshot
from webapp.jobs import queries as jobs
from webapp.jobs.queries import DatasetUse
from webapp.pages import fragments

FILES_SHOWN = 100
JOBS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class DatasetRow:
    team: str
    name: str
    newest: DatasetSnapshot
    versions: int
    jobs: int


@dataclass(frozen=True, slots=True)
class DatasetsPage:
    datasets: tuple[DatasetRow, ...]
    push_team: str  # of the command that is shown, "" where the reader may not push


@dataclass(frozen=True, slots=True)
class VersionRow:
    snapshot: DatasetSnapshot
    jobs: tuple[DatasetUse, ...]


@dataclass(frozen=True, slots=True)
class File:
    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class DatasetPage:
    team: str
    dataset: str
    versions: tuple[VersionRow, ...]
    newest: DatasetSnapshot
    files: tuple[File, ...]  # of the newest version, the first FILES_SHOWN by path
    may_push: bool


@login_required
@require_safe
def dataset_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    snapshots = sorted(queries.snapshots(actor.sees), key=lambda row: (row.team_id, row.name, -row.version))
    count = jobs.counts_by_dataset(row.id for row in snapshots)
    page = DatasetsPage(
        datasets=tuple(
            _row(list(rows), count) for _, rows in groupby(snapshots, lambda row: (row.team_id, row.name))
        ),
        push_team=_push_team(actor),
    )
    return fragments.render(request, "datasets/list.html", page)


def _row(versions: list[DatasetSnapshot], count: dict[str, int]) -> DatasetRow:
    newest = versions[0]
    used = sum(count.get(version.id, 0) for version in versions)
    return DatasetRow(newest.team_id, newest.name, newest, len(versions), used)


def _push_team(actor: Actor) -> str:
    teams = (team.slug for team in accounts.teams(actor.sees))
    return next((team for team in teams if permissions.may(actor, "dataset.create", team)), "")


@login_required
@require_safe
def detail(request: HttpRequest, team: str, name: str) -> HttpResponse:
    actor = actor_of(request)
    permissions.require(actor, "dataset.view", team, what=f"dataset {team}/{name}")
    versions = queries.versions(team, name)
    if not versions:
        raise TrainmasterError("not_found", what=f"dataset {team}/{name}")
    used = jobs.using_datasets((row.id for row in versions), actor.sees, JOBS_SHOWN)
    newest = versions[0]
    files = sorted(artifacts.manifest(newest.manifest_id).files, key=lambda entry: entry.path)
    page = DatasetPage(
        team=team,
        dataset=name,
        versions=tuple(
            VersionRow(row, tuple(use for use in used if use.dataset == row.id)) for row in versions
        ),
        newest=newest,
        files=tuple(File(entry.path, entry.size) for entry in files[:FILES_SHOWN]),
        may_push=permissions.may(actor, "dataset.create", team),
    )
    return fragments.render(request, "datasets/detail.html", page)
