"""What-if questions: the jobs of the last day replayed with other nodes, quotas or another policy."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from celery import current_app
from django.db import transaction

from platform_core.cluster.snapshot import NodeView, TeamShare
from platform_core.errors import TrainmasterError
from platform_core.scheduling.ordering import ORDERS
from platform_core.simulation.what_if import Circumstances, Course, History, play
from webapp.base.identity import now_ms
from webapp.jobs import workload
from webapp.nodes import queries as clusters
from webapp.quotas import queries as quotas
from webapp.scheduling import situation
from webapp.scheduling.models import WhatIf
from webapp.sockets import services as sockets

DAY_MS = 24 * 3_600_000
MOST_JOBS = 5_000
MOST_NODES = 2_000
POINTS = 400  # of a curve
KEPT = 20  # questions of a person
_METRICS = ("jobs", "mean_queue_s", "p99_queue_s", "mean_jct_s", "p99_jct_s", "utilisation", "preemptions")


@dataclass(frozen=True, slots=True)
class Question:
    gpu_type: str
    more_nodes: int  # of the same kind; negative: fewer
    order: str
    reservations: int
    preemption: bool
    # Team → slots, for the teams whose quota changes.
    maximum: dict[str, int]
    guaranteed: dict[str, int] = field(default_factory=dict)


def read(form: Mapping[str, str]) -> Question:
    """Raises request_invalid with the field that is wrong."""
    gpu_type, order = form.get("gpu_type", ""), form.get("order", "")
    if gpu_type not in quotas.gpu_types():
        raise _invalid(f"slot type {gpu_type!r}", f"there are {', '.join(quotas.gpu_types()) or 'none'}")
    if order not in ORDERS:
        raise _invalid(f"policy {order!r}", f"there are {', '.join(sorted(ORDERS))}")
    question = Question(
        gpu_type,
        _whole(form, "more_nodes", -MOST_NODES, MOST_NODES),
        order,
        _whole(form, "reservations", 0, 100),
        form.get("preemption", "") == "true",
        _of_teams(form, "max-"),
        _of_teams(form, "min-"),
    )
    _refuse_impossible_quotas(question)
    return question


def _of_teams(form: Mapping[str, str], prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): _whole(form, name, 0, 1_000_000)
        for name in form
        if name.startswith(prefix) and form[name].strip()
    }


def _refuse_impossible_quotas(question: Question) -> None:
    shares = {
        share.team: share for share in quotas.team_shares(now_ms()) if share.gpu_type == question.gpu_type
    }
    for team in sorted({*question.maximum, *question.guaranteed}):
        if team not in shares:
            raise _invalid(f"the quota of {team}", f"it has none of {question.gpu_type} that could change")
        maximum = question.maximum.get(team, shares[team].maximum)
        guaranteed = question.guaranteed.get(team, 0)
        if guaranteed > maximum:
            why = (
                f"{guaranteed} guaranteed is more than its maximum, {maximum}; ask with a higher maximum too"
            )
            raise _invalid(f"the quota of {team}", why)


def _whole(form: Mapping[str, str], name: str, low: int, high: int) -> int:
    given = form.get(name, "0").strip() or "0"
    if not given.removeprefix("-").isdecimal() or len(given) > 9 or not low <= int(given) <= high:
        raise _invalid(f"{name} {given!r}", f"it must be a whole number from {low} to {high}")
    return int(given)


def _invalid(what: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=what, why=why)


@transaction.atomic
def ask(user_id: int, question: Question) -> WhatIf:
    """Store a question, one at a time per person; a worker computes the answer."""
    now = now_ms()
    if WhatIf.objects.filter(user=user_id, answer__isnull=True, error="", asked_ms__gt=now - 60_000).exists():
        raise _invalid("this question", "your last one is not answered yet")
    row = WhatIf.objects.create(user_id=user_id, asked_ms=now, question=asdict(question))
    old = WhatIf.objects.filter(user=user_id).order_by("-id").values_list("id", flat=True)[KEPT:]
    WhatIf.objects.filter(id__in=list(old)).delete()
    transaction.on_commit(lambda: current_app.send_task("scheduling.answer", args=[row.pk]))
    return row


def answer(question_id: int) -> None:
    row = WhatIf.objects.filter(id=question_id, answer__isnull=True).first()
    if row is None:
        return
    question = Question(**row.question)
    day = workload.since(question.gpu_type, row.asked_ms - DAY_MS, row.asked_ms)[-MOST_JOBS:]
    as_it_is = _now(question.gpu_type, row.asked_ms - DAY_MS)
    if not day or not as_it_is.nodes:
        missing = "job of this slot type" if not day else "node of this slot type is ready"
        row.error = f"There is nothing to play: no {missing}{' in the last day' if not day else ''}."
    else:
        row.answer = {
            "jobs": len(day),
            "before": _answered(play(day, as_it_is)),
            "after": _answered(play(day, changed(as_it_is, question))),
        }
    with transaction.atomic():
        row.save(update_fields=["answer", "error"])
        sockets.publish(f"whatif:{row.pk}")


def _now(gpu_type: str, begin_ms: int) -> Circumstances:
    """The cluster as it is, empty, with what had been used lately when the day began. Jobs are played without their
    conditions, so nodes are without taints too."""
    nodes = [node for node in clusters.snapshot_nodes() if node.gpu_type == gpu_type and node.takes_work]
    empty = tuple(replace(node, free_slots=tuple(range(node.slots)), taints=(), windows=()) for node in nodes)
    shares = tuple(share for share in quotas.team_shares(now_ms()) if share.gpu_type == gpu_type)
    return Circumstances(empty, shares, situation.policy(), quotas.use_before(gpu_type, begin_ms))


def changed(as_it_is: Circumstances, question: Question) -> Circumstances:
    policy = replace(
        as_it_is.policy,
        order=question.order,
        reservations=question.reservations,
        evicts=question.preemption,
        migrates=question.preemption,
    )
    shares = tuple(_with_quota(share, question) for share in as_it_is.shares)
    nodes = _resized(as_it_is.nodes, question.more_nodes)
    return replace(as_it_is, nodes=nodes, shares=shares, policy=policy)


def _with_quota(share: TeamShare, question: Question) -> TeamShare:
    """A guarantee that the question does not set is capped by the maximum."""
    maximum = question.maximum.get(share.team, share.maximum)
    guaranteed = question.guaranteed.get(share.team, share.guaranteed)
    return replace(share, maximum=maximum, guaranteed=min(guaranteed, maximum))


def _resized(nodes: tuple[NodeView, ...], more: int) -> tuple[NodeView, ...]:
    if more <= 0:
        return nodes[: max(1, len(nodes) + more)]
    like = nodes[-1]
    return (
        *nodes,
        *(
            replace(like, id=f"node-new-{n:05}", hostname=f"new-{n}", rack=f"new-{n // 8}")
            for n in range(more)
        ),
    )


def _answered(history: History) -> dict[str, Any]:
    return {
        **{name: history.report[name] for name in _METRICS},
        "never_started": len(history.never_started),
        "course": asdict(_thinned(history.course)),
    }


def _thinned(course: Course) -> Course:
    step = max(1, len(course.at_ms) // POINTS)
    return Course(course.at_ms[::step], course.held[::step], course.waiting[::step])


def of_user(user_id: int, question_id: int | None = None) -> WhatIf | None:
    """The newest question of a person, or the given one."""
    rows = WhatIf.objects.filter(user=user_id).order_by("-id")
    return (rows if question_id is None else rows.filter(id=question_id)).first()


def may_watch(user: Any, subject_id: str) -> bool:
    return subject_id.isdecimal() and WhatIf.objects.filter(id=int(subject_id), user=user.pk).exists()
