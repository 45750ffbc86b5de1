"""Reads of jobs: for pages and the API, for reports, and for the nodes' wanted state."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, Sum
from django.db.models.fields.json import KeyTextTransform

from platform_core import ids
from platform_core.errors import TrainmasterError
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.kind import JobKind
from platform_core.jobs.states import ACTIVE, TERMINAL, WAITING, JobState
from webapp.accounts.permissions import may, require
from webapp.accounts.queries import actor_of
from webapp.jobs.corruption import Found, agreements, distrust, suspect
from webapp.jobs.history import sizes
from webapp.jobs.models import INPUTS, Attempt, Job, Member
from webapp.jobs.spares import known_spares
from webapp.jobs.values import JobFact

__all__ = ["Found", "agreements", "distrust", "known_spares", "sizes", "suspect"]


def first_submitted_ms() -> int | None:
    """Since when there are jobs."""
    return Job.objects.aggregate(first=Min("submitted_ms"))["first"]


def first_waits(from_ms: int, to_ms: int) -> list[tuple[int, int]]:
    """(GPUs, milliseconds from submission to the first start) of the jobs that first started then."""
    rows = Attempt.objects.filter(number=1, placed_ms__gte=from_ms, placed_ms__lt=to_ms)
    return [
        (gpus, placed - submitted)
        for gpus, placed, submitted in rows.values_list("job__num_gpus", "placed_ms", "job__submitted_ms")
    ]


def waits_without_a_start(at_ms: int) -> list[tuple[int, int]]:
    """(GPUs, milliseconds since submission) of the jobs that waited for their first start at that time."""
    started = Attempt.objects.filter(job=OuterRef("id"), number=1, placed_ms__lt=at_ms)
    living = Job.objects.filter(Q(finished_ms=None) | Q(finished_ms__gte=at_ms), submitted_ms__lte=at_ms)
    rows = living.filter(~Exists(started))
    return [(gpus, at_ms - submitted) for gpus, submitted in rows.values_list("num_gpus", "submitted_ms")]


def failures_by_node(from_ms: int, to_ms: int) -> dict[str, int]:
    """Node id → how many attempts it has made fail then, most first."""
    rows = Job.objects.exclude(failures=[]).values_list("failures", flat=True)
    recent = rows.filter(Q(finished_ms=None) | Q(finished_ms__gte=from_ms))
    counts = Counter(
        failure["node"] for failures in recent for failure in failures if from_ms <= failure["at_ms"] < to_ms
    )
    return dict(counts.most_common())


def visible(teams: Iterable[str] | None) -> QuerySet[Job]:
    """Jobs of these teams, newest first; None means all."""
    jobs = Job.objects.select_related("user", "team").order_by("-submitted_ms", "-id")
    return jobs if teams is None else jobs.filter(team__in=list(teams))


_GROUPS = {"active": ACTIVE, "waiting": WAITING, "finished": TERMINAL}


STATE_NAMES = (*_GROUPS, *JobState)


def states_of(name: str) -> list[str]:
    """The states behind a filter: a group's, or the one state it names."""
    return sorted(_GROUPS[name]) if name in _GROUPS else [name]


@dataclass(frozen=True, slots=True)
class Demand:
    """Number of jobs, slots they ask for, and since when the oldest has been pending."""

    jobs: int
    slots: int
    oldest_ms: int | None


def demand(jobs: QuerySet[Job]) -> Demand:
    sums = jobs.order_by().aggregate(jobs=Count("id"), slots=Sum("num_gpus"), oldest=Min("waiting_since_ms"))
    return Demand(sums["jobs"], sums["slots"] or 0, sums["oldest"])


def count_by_state(jobs: QuerySet[Job]) -> dict[str, int]:
    return dict(jobs.order_by().values_list("state").annotate(jobs=Count("id")))


def submitters(jobs: QuerySet[Job]) -> list[str]:
    return list(jobs.order_by("user__username").values_list("user__username", flat=True).distinct())


def filtered(
    jobs: QuerySet[Job], *, state: str = "", team: str = "", user: str = "", search: str = ""
) -> QuerySet[Job]:
    """`state` is one state, or `active`, `waiting`, `finished`."""
    if state:
        jobs = jobs.filter(state__in=states_of(state))
    if team:
        jobs = jobs.filter(team=team)
    if user:
        jobs = jobs.filter(user__username=user)
    if search:
        jobs = jobs.filter(
            Q(name__icontains=search) | Q(id__startswith=search) | Q(project__icontains=search)
        )
    return jobs


def not_ended(team: str, **filters: Any) -> list[Job]:
    """Jobs of the team that wait or run, oldest first."""
    living = Job.objects.filter(team=team, **filters).exclude(state__in=list(TERMINAL))
    return list(living.order_by("submitted_ms", "id"))


def using_secret(team: str, name: str) -> list[Job]:
    """Jobs that have not ended and name this secret of their team."""
    return not_ended(team, spec__secrets__contains=[name])


@dataclass(frozen=True, slots=True)
class DatasetUse:
    """A job that names a dataset version."""

    id: str
    name: str
    state: str
    dataset: str


def counts_by_dataset(snapshot_ids: Iterable[str]) -> dict[str, int]:
    """Snapshot id → jobs that name it; unused ones are left out."""
    rows = Job.objects.filter(spec__dataset__in=list(snapshot_ids)).order_by()
    return dict(rows.values_list("spec__dataset").annotate(Count("id")))


def reading_dataset(snapshot_id: str) -> list[str]:
    """The names of the jobs that have not ended and train on it."""
    rows = Job.objects.filter(spec__dataset=snapshot_id).exclude(state__in=list(TERMINAL)).order_by("id")
    return list(rows.values_list("name", flat=True))


def running_inputs() -> list[tuple[str, str, str, int]]:
    """(team, dataset version or "", model "name:number" or "", when it first started) of the jobs that run."""
    rows = Job.objects.filter(state__in=list(ACTIVE), started_ms__isnull=False)
    fields = rows.values_list("team", "spec__dataset", "spec__model", "started_ms")
    return [(team, data or "", model or "", int(ms or 0)) for team, data, model, ms in fields]


def using_datasets(
    snapshot_ids: Iterable[str], teams: Iterable[str] | None, limit: int
) -> tuple[DatasetUse, ...]:
    """The newest jobs of these teams that name one of the snapshots; None means every team."""
    rows = visible(teams).filter(spec__dataset__in=list(snapshot_ids)).order_by("-submitted_ms", "id")
    fields = ("id", "name", "state", "spec__dataset")
    return tuple(DatasetUse(*row) for row in rows.values_list(*fields)[:limit])


def queued_gpus(team: str, gpu_type: str) -> int:
    waiting = Job.objects.filter(team=team, gpu_type=gpu_type, state__in=list(WAITING))
    return waiting.aggregate(gpus=Sum("num_gpus"))["gpus"] or 0


def find(job_id: str) -> Job | None:
    return Job.objects.select_related("user", "team").filter(id=job_id).first()


def job_for(request: Any, job_id: str, action: str = "job.view") -> Job:
    """Returns the job if this person may do this to it. To outsiders it does not exist: not_found."""
    job = find(job_id)
    if job is None:
        raise TrainmasterError("not_found", what=f"job {job_id}")
    require(actor_of(request), action, job.team_id, owner=job.user.username, what=f"job {job_id}")
    return job


def names(job_ids: Iterable[str]) -> dict[str, str]:
    return dict(Job.objects.filter(id__in=set(job_ids)).values_list("id", "name"))


_JOB_ID = re.compile(rf"\b{ids.JOB}-[{ids.ALPHABET}]{{{ids.LENGTH}}}\b")


def calling_by_names(texts: Iterable[str], teams: Iterable[str] | None) -> Callable[[str], str]:
    """Returns a function that replaces job ids in these texts by names, for jobs of these teams; None means all."""
    job_ids = {job_id for text in texts for job_id in _JOB_ID.findall(text)}
    known = dict(visible(teams).filter(id__in=job_ids).values_list("id", "name")) if job_ids else {}
    return lambda text: _JOB_ID.sub(lambda match: known.get(match[0], match[0]), text)


def attempts(job_id: str) -> list[Attempt]:
    return list(Attempt.objects.filter(job=job_id).prefetch_related("members__node").order_by("-number"))


def in_rank_order(attempt: Attempt) -> list[Member]:
    return sorted(attempt.members.all(), key=lambda member: member.rank)


@dataclass(frozen=True, slots=True)
class Starts:
    """Of a job: on how many nodes its newest attempt was placed, and how long attempts took until they ran."""

    nodes: int
    took_ms: tuple[int, ...]


def starts(job_id: str) -> Starts:
    rows = Attempt.objects.filter(job=job_id).order_by("-number").annotate(nodes=Count("members"))
    newest = list(rows.values_list("nodes", "placed_ms", "running_ms")[:50])
    took = tuple(running_ms - placed_ms for _, placed_ms, running_ms in newest if running_ms is not None)
    return Starts(newest[0][0] if newest else 0, took)


def attempt_on(attempt_id: str, node_id: str) -> Attempt | None:
    """Returns the attempt if this node may still report about it: it was placed there, and is not lost or drained.

    An agent reports a member as drained once everything of it is acknowledged, so no valid report comes later.
    """
    open_part = Member.objects.filter(node=node_id, drained=False).exclude(phase=MemberPhase.LOST)
    return Attempt.objects.select_related("job").filter(id=attempt_id, members__in=open_part).first()


def holders() -> dict[str, tuple[str, str, str]]:
    """Attempt id → (job id, job name, team) of every attempt that may hold slots now."""
    rows = Attempt.objects.filter(ended_ms=None).values_list("id", "job_id", "job__name", "job__team_id")
    return {attempt: (job, name, team) for attempt, job, name, team in rows}


def newest_ended_attempts(since_ms: int) -> list[tuple[str, int]]:
    """(Job id, number) of the newest attempt of each job that ended since then, oldest first."""
    ended = Attempt.objects.filter(ended_ms__gte=since_ms).order_by()
    return list(
        ended.values("job_id")
        .annotate(newest=Max("number"), at=Max("ended_ms"))
        .order_by("at")
        .values_list("job_id", "newest")
    )


def needed_checkpoints() -> set[str]:
    """Checkpoints that a job which has not ended may still start from."""
    living = Job.objects.exclude(state__in=list(TERMINAL))
    return set(chain.from_iterable(living.values_list("spec__resume_from", "latest_checkpoint")))


def active_count(teams: Iterable[str] | None) -> int:
    return visible(teams).filter(state__in=list(ACTIVE)).count()


def waiting_count(teams: Iterable[str] | None) -> int:
    return visible(teams).filter(state__in=list(WAITING)).count()


def may_watch(user: Any, job_id: str) -> bool:
    team = Job.objects.filter(id=job_id).values_list("team_id", flat=True).first()
    return team is not None and may(actor_of(user), "job.view", team)


def in_queue_order(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Those that wait, the next to start first."""
    return jobs.filter(state__in=list(WAITING)).order_by("queue_position", "submitted_ms", "id")


def facts(job_ids: Iterable[str]) -> dict[str, JobFact]:
    """Returns names and states of jobs by id."""
    rows = Job.objects.filter(id__in=list(job_ids)).values_list("id", "name", "state")
    return {job_id: JobFact(name, state) for job_id, name, state in rows}


@dataclass(frozen=True, slots=True)
class MemberLoad:
    """What one person has in a team: jobs, and the slots they hold or ask for."""

    team: str
    user: str
    running: int
    running_gpus: int
    pending: int
    pending_gpus: int


def load_by_member(teams: Collection[str]) -> list[MemberLoad]:
    """Of everybody who has a running or a pending job there, the most pending slots first."""
    waiting, living = Q(state__in=list(WAITING)), Q(state__in=[*ACTIVE, *WAITING])
    rows = (
        Job.objects.filter(living, team__in=list(teams)).order_by().values_list("team_id", "user__username")
    )
    counted = rows.annotate(
        running=Count("id", filter=~waiting),
        running_gpus=Sum("num_gpus", filter=~waiting, default=0),
        pending=Count("id", filter=waiting),
        pending_gpus=Sum("num_gpus", filter=waiting, default=0),
    )
    return sorted(
        (MemberLoad(*row) for row in counted), key=lambda load: (load.team, -load.pending_gpus, load.user)
    )


def queued_by_type(team: str) -> dict[str, int]:
    waiting = Job.objects.filter(team=team, state__in=list(WAITING)).values_list("gpu_type")
    return dict(waiting.annotate(gpus=Sum("num_gpus")))


@dataclass(frozen=True, slots=True)
class JobReport:
    """How far a job is. `drained`: the agents have sent all that they had of its last attempt."""

    state: str
    started_ms: int | None
    finished_ms: int | None
    reason: str
    drained: bool


def reports(job_ids: Iterable[str]) -> dict[str, JobReport]:
    ids = list(job_ids)
    open_members = Member.objects.filter(
        attempt__job__in=ids, attempt__number=F("attempt__job__attempt"), drained=False
    )
    sending = set(open_members.values_list("attempt__job_id", flat=True))
    rows = Job.objects.filter(id__in=ids).values_list("id", "state", "started_ms", "finished_ms", "reason")
    return {row[0]: JobReport(*row[1:], drained=row[0] not in sending) for row in rows}


def nodes_of(job_id: str) -> list[str]:
    """The nodes on which the newest attempt of a job still holds slots."""
    living = Member.objects.filter(attempt__job=job_id, attempt__number=F("attempt__job__attempt"))
    return list(
        living.filter(phase__in=["assigned", "preparing", "running"]).values_list("node_id", flat=True)
    )


def running_without_interval() -> list[Job]:
    """Running jobs whose spec leaves open how often they save."""
    open_ = {"spec__checkpoint__interval_steps": 0, "spec__checkpoint__interval_minutes": 0}
    states = [JobState.RUNNING, JobState.CHECKPOINTING]
    return list(Job.objects.filter(state__in=states, stop="none", **open_).order_by("id"))


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a job was made of; "" for what it does not name."""

    job: str
    team: str
    code: str
    dataset: str
    resume_from: str
    model: str


def inputs_of(job_ids: Iterable[str]) -> list[Inputs]:
    return _inputs(Job.objects.filter(id__in=list(job_ids)))


def made_of(field: str, values: Iterable[str], team: str | None = None) -> list[Inputs]:
    """Jobs that name one of these values in a field of INPUTS; without services, which only use what is made."""
    assert field in INPUTS
    rows = Job.objects.filter(**{f"spec__{field}__in": list(values)})
    rows = rows.exclude(spec__kind=JobKind.SERVICE.value)
    return _inputs(rows if team is None else rows.filter(team=team))


def _inputs(rows: QuerySet[Job]) -> list[Inputs]:
    fields = [KeyTextTransform(name, "spec") for name in INPUTS]
    found = rows.order_by("id").values_list("id", "team_id", *fields)
    return [Inputs(job, team, *(value or "" for value in values)) for job, team, *values in found]


def unfinished(job_ids: Iterable[str]) -> list[Job]:
    return list(Job.objects.filter(id__in=list(job_ids)).exclude(state__in=list(TERMINAL)).order_by("id"))


def beginning_from(checkpoint_ids: Iterable[str]) -> list[tuple[Job, str]]:
    """(job that has not ended, checkpoint) of jobs that began from one of these, or would begin from it again."""
    ids_of = set(checkpoint_ids)
    named = Q(latest_checkpoint__in=ids_of) | Q(latest_checkpoint="", spec__resume_from__in=list(ids_of))
    rows = Job.objects.filter(named).exclude(state__in=list(TERMINAL)).order_by("id")
    return [(job, job.latest_checkpoint or job.spec["resume_from"]) for job in rows]


def used_bundles(since_ms: int, **filters: Any) -> set[str]:
    """The code bundles that jobs name that were submitted, or not over, since then."""
    recent = Q(submitted_ms__gte=since_ms) | Q(finished_ms=None) | Q(finished_ms__gte=since_ms)
    rows = Job.objects.filter(recent, **filters).order_by().values_list("spec__code", flat=True)
    return set(filter(None, rows.distinct()))
