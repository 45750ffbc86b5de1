"""The pages of datasets: what there is, and one dataset with its versions, files and uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from platform_core.datasets.changes import Changes
from platform_core.datasets.staleness import of_promise
from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.datasets import previews, queries
from webapp.datasets.models import READY, AccessRequest, DatasetSnapshot, Unreadable
from webapp.datasets.previews import Preview
from webapp.datasets.queries import Card
from webapp.jobs import queries as jobs
from webapp.jobs.queries import DatasetUse
from webapp.pages import fragments

FILES_SHOWN = 100
JOBS_SHOWN = 50
PATHS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class DatasetRow:
    team: str
    name: str
    newest: DatasetSnapshot
    versions: int
    jobs: int
    card: Card


@dataclass(frozen=True, slots=True)
class DatasetsPage:
    search: str
    datasets: tuple[DatasetRow, ...]
    others: tuple[Card, ...]  # listed by teams that the reader is not in
    push_team: str  # of the command that is shown, "" where the reader may not push
    teams: tuple[str, ...]  # for which the reader may register
    values: Mapping[str, str]
    problems: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class VersionRow:
    snapshot: DatasetSnapshot
    jobs: tuple[DatasetUse, ...]


@dataclass(frozen=True, slots=True)
class File:
    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    row: Unreadable
    what: str
    jobs: tuple[str, ...]  # the newest


@dataclass(frozen=True, slots=True)
class DatasetPage:
    team: str
    dataset: str
    card: Card
    is_late: bool  # its newest version is older than was promised
    versions: tuple[VersionRow, ...]  # none: the reader knows only the card
    shown: DatasetSnapshot | None  # the version whose files are shown
    files: tuple[File, ...]  # the first FILES_SHOWN by path
    difference: Changes | None  # to the version before the one that is shown
    before: DatasetSnapshot | None
    preview: Preview | None
    unreadable: tuple[UnreadableRow, ...]  # by jobs, of the version that is shown
    requests: tuple[AccessRequest, ...]
    expired: frozenset[str]  # ids of requests that were approved for a time that is over
    may_push: bool
    may_edit: bool
    may_approve: bool
    may_delete: bool
    request_teams: tuple[str, ...]  # for which the reader may request access
    problems: Mapping[str, str]


@login_required
@require_safe
def dataset_list(request: HttpRequest) -> HttpResponse:
    return show_list(request, actor_of(request), {}, {})


def show_list(
    request: HttpRequest,
    actor: Actor,
    values: Mapping[str, str],
    problems: Mapping[str, str],
    status: int = 200,
) -> HttpResponse:
    search = request.GET.get("search", "").strip()
    cards = queries.cards(actor.sees)
    snapshots = sorted(queries.snapshots(actor.sees), key=lambda row: (row.team_id, row.name, -row.version))
    count = jobs.counts_by_dataset(row.id for row in snapshots)
    grouped = [(key, list(rows)) for key, rows in groupby(snapshots, lambda row: (row.team_id, row.name))]
    seen = {key for key, _ in grouped}
    teams = _teams(actor, "dataset.create")
    page = DatasetsPage(
        search=search,
        datasets=tuple(
            _row(rows, count, cards.get(key) or Card(*key))
            for key, rows in grouped
            if queries.matches(search, rows[0], cards.get(key))
        ),
        others=tuple(card for key, card in sorted(cards.items()) if key not in seen and card.listed),
        push_team=teams[0] if teams else "",
        teams=teams,
        values=values,
        problems=problems,
    )
    return fragments.render(request, "datasets/list.html", page, status=status)


def _row(versions: list[DatasetSnapshot], count: Mapping[str, int], card: Card) -> DatasetRow:
    newest = versions[0]
    used = sum(count.get(version.id, 0) for version in versions)
    return DatasetRow(newest.team_id, newest.name, newest, len(versions), used, card)


def _teams(actor: Actor, action: str) -> tuple[str, ...]:
    slugs = (team.slug for team in accounts.teams(actor.sees))
    return tuple(slug for slug in slugs if permissions.may(actor, action, slug))


@login_required
@require_safe
def detail(request: HttpRequest, team: str, name: str) -> HttpResponse:
    return show_detail(request, actor_of(request), team, name, {})


def show_detail(
    request: HttpRequest, actor: Actor, team: str, name: str, problems: Mapping[str, str], status: int = 200
) -> HttpResponse:
    if not queries.sees_card(actor, team, name):
        raise TrainmasterError("not_found", what=f"dataset {team}/{name}")
    card = queries.card(team, name)
    versions = queries.versions(team, name) if queries.sees(actor, team, name) else []
    used = jobs.using_datasets((row.id for row in versions), actor.sees, JOBS_SHOWN)
    shown = _shown(versions, request.GET.get("version", ""))
    before = next(
        (row for row in versions if shown and row.version < shown.version and row.state == READY), None
    )
    files = queries.files(shown)[:FILES_SHOWN] if shown else []
    requests = queries.requests(actor, team, name, 50)
    page = DatasetPage(
        team=team,
        dataset=name,
        card=card,
        is_late=any(
            (one.team, one.name) == (team, name)
            and of_promise(one.newest_ms, one.fresh_minutes, now_ms()) > 1
            for one in queries.promised()
        ),
        versions=tuple(
            VersionRow(row, tuple(use for use in used if use.dataset == row.id)) for row in versions
        ),
        shown=shown,
        files=tuple(File(file["path"], file["size"]) for file in files),
        difference=queries.difference(before, shown) if before and shown and shown.state == READY else None,
        before=before,
        unreadable=_unreadable(shown),
        preview=_preview(shown, request.GET.get("path", ""), request.user.get_username()),
        requests=tuple(requests),
        expired=frozenset(row.id for row in requests if 0 < row.expires_ms <= now_ms()),
        may_push=permissions.may(actor, "dataset.create", team),
        may_edit=permissions.may(actor, "dataset.edit", team),
        may_approve=permissions.may(actor, "dataset.approve", team, card.owner),
        may_delete=permissions.may(actor, "dataset.delete", team, card.owner),
        request_teams=_teams(actor, "dataset.request"),
        problems=problems,
    )
    return fragments.render(request, "datasets/detail.html", page, status=status)


def _shown(versions: list[DatasetSnapshot], wanted: str) -> DatasetSnapshot | None:
    """The version that was asked for; otherwise the newest that is ready."""
    asked = next((row for row in versions if str(row.version) == wanted), None)
    return asked or next((row for row in versions if row.state == READY), versions[0] if versions else None)


def _unreadable(shown: DatasetSnapshot | None) -> tuple[UnreadableRow, ...]:
    rows = queries.unreadable_of(shown.id) if shown else []
    return tuple(UnreadableRow(row, str(queries.item_of(row)), tuple(row.jobs[:3])) for row in rows)


def _preview(shown: DatasetSnapshot | None, path: str, person: str) -> Preview | None:
    if shown is None or not path:
        return None
    try:
        return previews.preview(shown, path, person)
    except TrainmasterError as error:
        return Preview(path, 0, "none", error.sentence)
