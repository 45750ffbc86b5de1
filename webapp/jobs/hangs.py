"""Jobs that hang: the stacks of all their nodes brought together, and what follows by the job's policy."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from django.db import transaction
from django.db.models import F

from platform_core.errors import TrainmasterError
from platform_core.jobs import events as ev
from platform_core.jobs.hangs import OnHang
from platform_core.jobs.stacks import Activity, Diagnosis, RankStack, diagnose
from platform_core.jobs.states import JobState
from platform_core.node.observed import AttemptObserved, StacksObserved
from platform_core.units import SECOND_MS, format_duration_ms
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.base.lease import Fence
from webapp.events import services as events
from webapp.jobs import transitions
from webapp.jobs.models import Attempt, Hang, Job, Member, StackDump
from webapp.nodes import services as clusters
from webapp.sockets import services as sockets

OPEN = (Hang.Stage.ASKING, Hang.Stage.WORKING, Hang.Stage.HELD)
ANSWER_MS = 30 * SECOND_MS  # for the stacks of the other nodes; then those that came count
_LIVING = ("assigned", "preparing", "running")


@transaction.atomic
def observe(reports: Sequence[tuple[str, AttemptObserved]]) -> None:
    """Takes what nodes say of running attempts: stack dumps, hangs and their end."""
    if not reports:
        return
    now = now_ms()
    _lock({seen.attempt_id for _, seen in reports if seen.stacks is not None or seen.hang is not None})
    ids = {observed.attempt_id for _, observed in reports}
    hung = {hang.attempt_id: hang for hang in Hang.objects.filter(attempt__in=ids, stage__in=OPEN)}
    changed = set()
    for node_id, observed in reports:
        if observed.stacks is not None and _keep(node_id, observed.attempt_id, observed.stacks, now):
            changed.add(observed.attempt_id)
        hang = hung.get(observed.attempt_id)
        if observed.hang is not None and hang is None:
            hung[observed.attempt_id] = _begin(node_id, observed, now)
            changed.add(observed.attempt_id)
        elif observed.hang is None and hang is not None and hang.node_id == node_id:
            _over(hung.pop(observed.attempt_id))
    for attempt_id in sorted(changed & hung.keys()):
        _look_into(hung[attempt_id], now)
    for job_id in Attempt.objects.filter(id__in=changed).values_list("job_id", flat=True):
        sockets.publish(f"job:{job_id}")


def sweep(at_ms: int, fence: Fence = transaction.atomic) -> None:
    """Decides where stacks are overdue, looks again where a rank still worked, closes what has ended."""
    for hang in Hang.objects.filter(stage__in=OPEN).select_related("attempt").order_by("id"):
        waited_ms = at_ms - hang.at_ms
        with fence():
            _lock([hang.attempt_id])
            if hang.attempt.ended_ms is not None:
                _set(hang, stage=Hang.Stage.OVER)
            elif hang.stage == Hang.Stage.ASKING and waited_ms > ANSWER_MS:
                _look_into(hang, at_ms)
            elif hang.stage == Hang.Stage.WORKING and waited_ms > hang.limit_ms:
                _set(hang, stage=Hang.Stage.ASKING, at_ms=at_ms, order=_order(hang.attempt_id))


def order_stacks(actor: Actor, job_id: str) -> None:
    """Asks all nodes of a running job for the stacks of its ranks; the text comes with the log."""
    with transaction.atomic():
        attempt = _running(actor, job_id, "a stack dump")
        _order(attempt.id)
        _record("StacksOrdered", attempt, actor.name, "")


def restart(actor: Actor, job_id: str) -> None:
    """Restarts a job that hangs, from its last checkpoint."""
    with transaction.atomic():
        attempt = _running(actor, job_id, "a restart")
        _lock([attempt.id])
        hang = Hang.objects.filter(attempt=attempt, stage__in=OPEN).first()
        if hang is None:
            why = "the job makes progress; only one that hangs can be restarted"
            raise TrainmasterError("request_invalid", what="restart", why=why)
        _restart(hang, actor.name, now_ms())


def open_hang(job: Job) -> Hang | None:
    return Hang.objects.filter(attempt__job=job, attempt__number=job.attempt, stage__in=OPEN).first()


def taken_ms(job: Job) -> int:
    """When the last of the nodes of the newest attempt sent its stacks; 0 before that."""
    dumps = StackDump.objects.filter(attempt__job=job, attempt__number=job.attempt)
    return max(dumps.values_list("at_ms", flat=True), default=0)


def stacks(job: Job) -> tuple[RankStack, ...]:
    """The newest stack dumps of the newest attempt, by rank."""
    rows = StackDump.objects.filter(attempt__job=job, attempt__number=job.attempt)
    ranks = [_rank(row) for dump in rows for row in dump.ranks]
    return tuple(sorted(ranks, key=lambda stack: stack.rank))


def sentence(hang: Hang, at_ms: int) -> str:
    silence, limit = format_duration_ms(max(0, at_ms - hang.since_ms)), format_duration_ms(hang.limit_ms)
    told = f"no progress for {silence} after step {hang.step:,}; its own steps allow {limit}"
    return f"{told}. {hang.sentence[:1].upper()}{hang.sentence[1:]}" if hang.sentence else told


def _lock(attempt_ids: Collection[str]) -> None:
    """Locks the jobs first, as every transition does."""
    rows = Job.objects.select_for_update(of=("self",)).filter(attempts__in=attempt_ids).order_by("id")
    if attempt_ids:
        list(rows.values_list("id", flat=True))


def _running(actor: Actor, job_id: str, what: str) -> Attempt:
    job = Job.objects.filter(id=job_id).select_related("user").first()
    if job is None:
        raise TrainmasterError("not_found", what=f"job {job_id}")
    permissions.require(actor, "job.cancel", job.team_id, owner=job.user.username)
    if job.state not in (JobState.RUNNING, JobState.CHECKPOINTING) or job.stop != "none":
        state = "is being stopped" if job.stop != "none" else f"is {job.state}"
        raise TrainmasterError("request_invalid", what=what, why=f"the job {state}; it must be running")
    return Attempt.objects.get(job=job, number=job.attempt)


def _keep(node_id: str, attempt_id: str, dump: StacksObserved, now: int) -> bool:
    """Keeps the dump unless it is known; whether it is new."""
    row = StackDump.objects.filter(attempt=attempt_id, node=node_id).first()
    if row is not None and (row.order, row.node_ms) == (dump.order, dump.at_ms):
        return False
    columns = {"order": dump.order, "node_ms": dump.at_ms, "ranks": [asdict(rank) for rank in dump.ranks]}
    StackDump.objects.update_or_create(
        attempt_id=attempt_id, node_id=node_id, defaults={**columns, "at_ms": now}
    )
    return True


def _begin(node_id: str, observed: AttemptObserved, now: int) -> Hang:
    assert observed.hang is not None
    others = Member.objects.filter(attempt=observed.attempt_id, phase__in=_LIVING).exclude(node=node_id)
    order = _order(observed.attempt_id) if others.exists() else 0
    return Hang.objects.create(
        attempt_id=observed.attempt_id, node_id=node_id, at_ms=now, since_ms=now - observed.hang.silent_ms,
        limit_ms=observed.hang.limit_ms, step=observed.hang.step, order=order,
    )  # fmt: skip


def _order(attempt_id: str) -> int:
    """Asks the nodes of the attempt for stacks; the number of the order."""
    Attempt.objects.filter(id=attempt_id).update(stacks_order=F("stacks_order") + 1)
    living = Member.objects.filter(attempt=attempt_id, phase__in=_LIVING)
    clusters.touch(living.values_list("node_id", flat=True))
    return int(Attempt.objects.values_list("stacks_order", flat=True).get(id=attempt_id))


def _look_into(hang: Hang, now: int) -> None:
    """Decides once all nodes have answered, or have had their time."""
    if hang.stage != Hang.Stage.ASKING:
        return
    dumps = list(StackDump.objects.filter(attempt=hang.attempt_id, order__gte=hang.order))
    answered = {dump.node_id for dump in dumps}
    living = set(
        Member.objects.filter(attempt=hang.attempt_id, phase__in=_LIVING).values_list("node_id", flat=True)
    )
    if living - answered and now - hang.at_ms <= ANSWER_MS:
        return
    dumps = dumps or list(StackDump.objects.filter(attempt=hang.attempt_id))
    node_of = {row["rank"]: dump.node_id for dump in dumps for row in dump.ranks}
    verdict = diagnose([_rank(row) for dump in dumps for row in dump.ranks])
    if verdict.works:
        _set(hang, stage=Hang.Stage.WORKING, sentence=verdict.sentence, at_ms=now)
        return
    _set(hang, sentence=verdict.sentence, stuck_node=_stuck_node(hang, verdict, node_of, living), at_ms=now)
    job = hang.attempt.job
    if job.spec.get("on_hang", OnHang.RESTART) == OnHang.RESTART:
        _restart(hang, "system", now)
    else:
        _set(hang, stage=Hang.Stage.HELD)
        _record("JobHeld", hang.attempt, "system", sentence(hang, now))


def _stuck_node(hang: Hang, verdict: Diagnosis, node_of: dict[int, str], living: set[str]) -> str:
    nodes = [node_of[rank] for rank in verdict.stuck if node_of.get(rank) in living]
    return nodes[0] if nodes else hang.node_id


def _restart(hang: Hang, actor: str, now: int) -> None:
    node = hang.stuck_node or hang.node_id
    attempt = hang.attempt
    cause = sentence(hang, now).rstrip(".")
    transitions.step(
        attempt.job_id, ev.Hung(at_ms=now, actor=actor, cause=cause, attempt=attempt.number, node=node)
    )
    _set(hang, stage=Hang.Stage.RESTARTED)


def _over(hang: Hang) -> None:
    was_held = hang.stage == Hang.Stage.HELD
    _set(hang, stage=Hang.Stage.OVER)
    if was_held:
        _record("HangOver", hang.attempt, "system", "it makes progress again")


def _set(hang: Hang, **columns: Any) -> None:
    for name, value in columns.items():
        setattr(hang, name, value)
    hang.save(update_fields=list(columns))


def _record(kind: str, attempt: Attempt, actor: str, cause: str) -> None:
    job = attempt.job
    events.record(
        kind, f"job:{job.id}", actor=actor, team=job.team_id, cause=cause,
        data={"name": job.name, "state": job.state, "attempt": attempt.number}, notify=(f"jobs:{job.team_id}",),
    )  # fmt: skip
    sockets.publish(f"job:{job.id}")


def _rank(row: dict[str, Any]) -> RankStack:
    return RankStack(**{**row, "activity": Activity(row["activity"])})
