"""The verbs of evaluations: publish a suite, ask for the evaluation of a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.db.models import Max

from platform_core.errors import TrainmasterError
from platform_core.evaluations import suite as suites
from platform_core.evaluations.states import SETTLED, EvaluationState
from platform_core.jobs.reader import SpecError
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.evaluations import queries
from webapp.evaluations.models import EvaluationRun, Suite
from webapp.events import services as events
from webapp.jobs import origins
from webapp.jobs import services as jobs
from webapp.registry import queries as registry
from webapp.registry.services import subject_of

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion


def publish(actor: Actor, fields: Mapping[str, Any]) -> tuple[Suite, bool]:
    """The next version of a suite, and whether it is new: what the newest has already changes nothing.

    Its jobs run as the actor. Blocks while code of a git repository is fetched, once: a version keeps its commit.
    Raises SpecError of suite_invalid with every problem, and not_allowed.
    """
    spec = suites.parse(fields)
    team, name = spec.job.team, spec.job.name
    permissions.require(actor, "suite.publish", team)
    jobs.check_permissions(actor, spec.job)
    try:
        pinned, origin = origins.resolve(actor, spec.job, {})
        jobs.check_references(pinned)
    except SpecError as error:
        raise SpecError(error.problems, "suite_invalid") from error
    written = suites.as_mapping(replace(spec, job=pinned))
    before = queries.newest(team, name)
    if before is not None and before.spec == written and before.author.username == actor.username:
        return before, False
    try:
        with transaction.atomic():
            row = Suite.objects.create(
                team_id=team, name=name, version=before.version + 1 if before else 1, spec=written, origin=origin,
                author=accounts.user(actor.username), created_ms=now_ms(),
            )  # fmt: skip
            events.record(
                "SuitePublished", f"team:{team}", actor=actor.name, team=team, cause=str(row),
                notify=(f"models:{team}",),
            )  # fmt: skip
    except IntegrityError as error:  # somebody else published between our look and our insert
        seen = before.version if before else 0
        raise TrainmasterError("stale_version", what=f"Suite {name}", seen=seen) from error
    return row, True


def evaluate(
    actor: Actor, version: ModelVersion, suite: str, *, again: bool = False
) -> tuple[EvaluationRun, bool]:
    """Has the server evaluate the version by the newest version of the suite: the run, and whether it is new.

    A version that waits, runs or is done is not evaluated twice by the same version of a suite, unless `again` says
    so; what failed is. Raises not_found, not_allowed, and request_invalid where the version has no files.
    """
    team = version.model.team_id
    permissions.require(actor, "suite.run", team, what=f"model {version.model}")
    row = queries.newest(team, suite)
    if row is None:
        raise TrainmasterError("not_found", what=f"evaluation suite {team}/{suite}")
    if version.state != "ready":
        why = f"it is {version.state}; the platform needs its files"
        raise TrainmasterError("request_invalid", what=f"an evaluation of {version}", why=why)
    return _ask(row, version, accounts.user_key(actor.username), again=again)


def evaluate_candidate(version: ModelVersion) -> None:
    """Asks for what the gate of its model needs: the suites it names, and of production what is compared."""
    for name in sorted(registry.suites_of_gate(version.model)):
        suite = queries.newest(version.model.team_id, name)
        if suite is None:
            continue  # people send its results
        _ask(suite, version, None)
        production = registry.in_production(version.model)
        if production is not None and name in registry.compared_suites(version.model):
            _ask(suite, production, None)


def _ask(
    suite: Suite, version: ModelVersion, asked_by: int | None, *, again: bool = False
) -> tuple[EvaluationRun, bool]:
    runs = EvaluationRun.objects.filter(suite=suite, version=version.pk)
    newest = runs.order_by("-number").first()
    if newest is not None and _answers(newest, again):
        return newest, False
    number = (runs.aggregate(last=Max("number"))["last"] or 0) + 1
    try:
        with transaction.atomic():
            row = EvaluationRun.objects.create(
                suite=suite, version_id=version.pk, number=number, asked_by_id=asked_by, asked_ms=now_ms()
            )
    except IntegrityError:  # somebody else asked between our look and our insert
        return runs.order_by("-number")[0], False
    events.record(
        "EvaluationAsked", subject_of(version.model), team=suite.team_id,
        actor=f"user:{row.asked_by.username}" if row.asked_by else "system",
        cause=f"{version} by {suite}", notify=(f"models:{suite.team_id}",),
    )  # fmt: skip
    return row, True


def _answers(run: EvaluationRun, again: bool) -> bool:
    """Whether this run is the answer to somebody who asks for an evaluation."""
    if run.state not in SETTLED:
        return True
    return run.state == EvaluationState.DONE and not again
