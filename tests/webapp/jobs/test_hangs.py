"""Jobs that hang: the stacks of all nodes brought together, and a restart or a person's decision."""

from collections.abc import Callable

import pytest

from platform_core.errors import TrainmasterError
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.stacks import Activity, RankStack
from platform_core.node.observed import AttemptObserved, HangObserved, StacksObserved
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import after_its_pause, say, state, tick
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.events.queries import story
from webapp.jobs import hangs
from webapp.jobs.models import Attempt, Hang, Job, Member
from webapp.nodes.models import Node
from webapp.rpc.wanted import wanted_states

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]
WAITS = {"activity": Activity.COLLECTIVE, "function": "all_reduce", "location": "train.py:9"}
STUCK = {"activity": Activity.SCRIPT, "function": "read_batch", "location": "data.py:42"}
HANG = HangObserved(1, 301_000, 300_000, 40)


def running(submit: Submit, **changes: object) -> Job:
    """On two nodes of two slots each: ranks 0 and 1 on the first, 2 and 3 on the second."""
    job = submit(**changes)
    tick()
    say(job, MemberPhase.RUNNING)
    return job


def nodes_of(job: Job) -> list[str]:
    members = Member.objects.filter(attempt__job=job, attempt__number=Job.objects.get(id=job.id).attempt)
    return list(members.order_by("rank").values_list("node_id", flat=True))


def report(
    job: Job, node: int, hang: HangObserved | None, *ranks: dict[str, object], order: int = 0, at_ms: int = 1
) -> None:
    attempt = Attempt.objects.filter(job=job).latest("number")
    first = 2 * node
    stacks = StacksObserved(
        order,
        at_ms,
        tuple(RankStack(first + place, **rank) for place, rank in enumerate(ranks)),  # type: ignore[arg-type]
    )
    seen = AttemptObserved(attempt.id, MemberPhase.RUNNING, stacks=stacks if ranks else None, hang=hang)
    hangs.observe([(nodes_of(job)[node], seen)])


def kinds(job: Job) -> list[str]:
    return [event.kind for event in story(f"job:{job.id}")]


def test_a_gang_that_hangs_restarts_once_all_its_nodes_have_sent_their_stacks(submit: Submit) -> None:
    job = running(submit)
    _, second = nodes_of(job)
    before = Node.objects.get(id=second).wanted_revision
    report(job, 0, HANG, WAITS, WAITS)
    assert state(job) == "running"
    assert Node.objects.get(id=second).wanted_revision > before
    (wanted,) = wanted_states([second])
    assert wanted.attempts[0].stacks_order == 1
    report(job, 1, None, STUCK, WAITS, order=1)
    report(job, 0, HANG, WAITS, WAITS, order=1, at_ms=2)
    row = Job.objects.get(id=job.id)
    assert row.stop == "restart"
    assert (
        "rank 2 is stuck in read_batch (data.py:42); ranks 0, 1 and 3 wait in all_reduce"
        in row.reason.lower()
    )
    assert row.reason.startswith("no progress for 5 min")
    say(job, MemberPhase.EXITED, 137, end=EndReason.STOPPED)
    row.refresh_from_db()
    assert (row.state, row.restarts) == ("pending", 1)
    assert [(failure["node"], failure["end"]) for failure in row.failures] == [(second, "hang")]
    assert Hang.objects.get().stage == "restarted"
    after_its_pause(job)
    assert state(job) == "scheduled"


def test_a_rank_that_still_works_on_another_node_is_waited_for_and_looked_at_again(submit: Submit) -> None:
    job = running(submit)
    report(job, 0, HANG, WAITS, WAITS)
    report(job, 1, None, {**STUCK, "moving": True}, WAITS, order=1)
    report(job, 0, HANG, WAITS, WAITS, order=1, at_ms=2)
    hang = Hang.objects.get()
    assert (hang.stage, hang.sentence) == (
        "working",
        "rank 2 still works; ranks 0, 1 and 3 wait in all_reduce",
    )
    hangs.sweep(hang.at_ms + hang.limit_ms - 1)
    assert Attempt.objects.get(job=job).stacks_order == 1
    hangs.sweep(hang.at_ms + hang.limit_ms + 1)
    assert (Attempt.objects.get(job=job).stacks_order, Hang.objects.get().stage) == (2, "asking")
    assert Job.objects.get(id=job.id).stop == "none"


def test_a_node_that_sends_no_stacks_is_not_waited_for_without_end(submit: Submit) -> None:
    job = running(submit)
    report(job, 0, HANG, STUCK, WAITS)
    report(job, 0, HANG, STUCK, WAITS, order=1, at_ms=2)
    assert Job.objects.get(id=job.id).stop == "none"
    hangs.sweep(Hang.objects.get().at_ms + hangs.ANSWER_MS + 1)
    assert Job.objects.get(id=job.id).stop == "restart"


def test_a_held_job_keeps_its_slots_until_a_person_decides(submit: Submit, cast: Cast) -> None:
    job = running(submit, num_gpus=2, on_hang="hold")
    report(job, 0, HANG, STUCK, WAITS)
    hangs.sweep(now_ms() + 10**9)
    tick()
    assert state(job) == "running"
    assert Hang.objects.get().stage == "held"
    held = next(event for event in story(f"job:{job.id}") if event.kind == "JobHeld")
    assert "Rank 0 is stuck in read_batch (data.py:42); rank 1 waits in all_reduce" in held.cause
    hangs.restart(actor_of(cast.owner), job.id)
    row = Job.objects.get(id=job.id)
    assert row.stop == "restart"
    assert any(event.cause.startswith("alice restarted it, for it hung") for event in story(f"job:{job.id}"))


def test_a_held_job_that_goes_on_by_itself_is_held_no_longer(submit: Submit, cast: Cast) -> None:
    job = running(submit, num_gpus=2, on_hang="hold")
    report(job, 0, HANG, STUCK, WAITS)
    report(job, 0, None)
    assert Hang.objects.get().stage == "over"
    assert kinds(job)[-1] == "HangOver"
    with pytest.raises(TrainmasterError) as refusal:
        hangs.restart(actor_of(cast.owner), job.id)
    assert "makes progress" in refusal.value.sentence


def test_a_report_that_comes_twice_changes_nothing(submit: Submit) -> None:
    job = running(submit, num_gpus=2, on_hang="hold")
    for _ in range(3):
        report(job, 0, HANG, STUCK, WAITS)
    assert Hang.objects.count() == 1
    assert kinds(job).count("JobHeld") == 1


def test_a_hang_whose_attempt_ends_is_over(submit: Submit) -> None:
    job = running(submit, num_gpus=2, on_hang="hold")
    report(job, 0, HANG, STUCK, WAITS)
    say(job, MemberPhase.EXITED, 1)
    hangs.sweep(now_ms())
    assert Hang.objects.get().stage == "over"


def test_stacks_are_ordered_of_all_nodes_and_shown_by_rank(submit: Submit, cast: Cast) -> None:
    job = running(submit)
    hangs.order_stacks(actor_of(cast.owner), job.id)
    assert [state.attempts[0].stacks_order for state in wanted_states(nodes_of(job))] == [1, 1]
    report(job, 1, None, STUCK, WAITS, order=1)
    report(job, 0, None, WAITS, WAITS, order=1)
    assert [(stack.rank, stack.function) for stack in hangs.stacks(Job.objects.get(id=job.id))] == [
        (0, "all_reduce"), (1, "all_reduce"), (2, "read_batch"), (3, "all_reduce"),
    ]  # fmt: skip
    assert "StacksOrdered" in kinds(job)
    assert not Hang.objects.exists()


def test_a_job_that_does_not_run_has_no_stacks(submit: Submit, cast: Cast) -> None:
    job = submit()
    with pytest.raises(TrainmasterError) as refusal:
        hangs.order_stacks(actor_of(cast.owner), job.id)
    assert refusal.value.sentence.endswith("the job is pending; it must be running")


@pytest.mark.parametrize(
    ("who", "may"), [("lead", True), ("admin", True), ("member", False), ("outsider", False)]
)
def test_who_may_not_cancel_a_job_may_not_restart_or_inspect_it(
    who: str, may: bool, submit: Submit, cast: Cast
) -> None:
    job = running(submit, num_gpus=2, on_hang="hold")
    report(job, 0, HANG, STUCK, WAITS)
    actor = actor_of(getattr(cast, who))
    if may:
        hangs.order_stacks(actor, job.id)
        hangs.restart(actor, job.id)
        return
    for verb in (hangs.order_stacks, hangs.restart):
        with pytest.raises(TrainmasterError) as refusal:
            verb(actor, job.id)
        assert refusal.value.code == ("not_found" if who == "outsider" else "not_allowed")
