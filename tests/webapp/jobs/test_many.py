"""Many jobs at once: in as many statements as one, and each on its own."""

from collections.abc import Callable

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from platform_core.jobs import events
from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import state, tick
from webapp.events.queries import story
from webapp.jobs import services
from webapp.jobs.models import Attempt, Job, Member
from webapp.jobs.services import Placing
from webapp.nodes.models import Node, Slot
from webapp.quotas.models import LedgerEntry
from webapp.quotas.queries import RECENT_KEY
from webapp.scheduling import situation

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]


def seats(node: Node, *slots: int) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
    return ((node.id, 0, slots),)


def seen(job: Job, phase: MemberPhase, exit_code: int | None = None) -> tuple[str, events.MemberObserved]:
    member = Member.objects.select_related("attempt").get(attempt__job=job)
    event = events.MemberObserved(
        at_ms=10**13, actor=f"node:{member.node_id}", attempt=member.attempt.number, node=member.node_id, phase=phase,
        exit_code=exit_code,
    )  # fmt: skip
    return job.id, event


def statements(act: Callable[[], object]) -> int:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        act()
    return len(queries)


def test_a_round_starts_eight_jobs_in_as_many_statements_as_one(submit: Submit, cluster: list[Node]) -> None:
    one = [Placing(submit(num_gpus=1).id, seats(cluster[0], 0), "alone")]
    many = [
        Placing(submit(num_gpus=1).id, seats(cluster[0], 1), "one of many"),
        *(
            Placing(submit(num_gpus=1).id, seats(node, slot), "one of many")
            for node in cluster[1:]
            for slot in (0, 1)
        ),
    ]
    alone = statements(lambda: services.place(one, 10**13))
    assert statements(lambda: services.place(many, 10**13)) == alone
    assert Attempt.objects.count() == len(many) + 1
    for job in Job.objects.all():
        assert job.state == "scheduled"
        assert [event.kind for event in story(f"job:{job.id}")] == ["Submitted", "Placed"]


def test_a_round_is_loaded_in_as_many_queries_for_many_jobs_as_for_few(submit: Submit) -> None:
    def load() -> None:
        cache.delete(RECENT_KEY)  # it ends by itself within seconds, perhaps between the two
        situation.load(10**13)

    for _ in range(2):
        submit(num_gpus=4)  # one of them waits once the others run
        submit(num_gpus=1)
        tick()
    few = statements(load)
    for _ in range(20):
        submit(num_gpus=1)
        submit(num_gpus=4)
        tick()
    assert statements(load) == few


def test_what_many_agents_say_at_once_costs_as_much_as_what_one_says(submit: Submit) -> None:
    jobs = [submit(num_gpus=1) for _ in range(6)]
    tick()
    for phase, exit_code, after in (
        (MemberPhase.RUNNING, None, "running"),
        (MemberPhase.EXITED, 0, "succeeded"),
    ):
        first, *others = [seen(job, phase, exit_code) for job in jobs]
        alone = statements(lambda said=first: services.observe_all([said]))
        assert statements(lambda said=others: services.observe_all(said)) == alone
        assert {state(job) for job in jobs} == {after}
    assert not Attempt.objects.filter(running_ms=None).exists()
    assert not Slot.objects.exclude(attempt_id=None).exists()
    assert not LedgerEntry.objects.filter(ended_ms=None).exists()


def test_a_whole_life_said_in_one_breath_is_told_step_by_step(submit: Submit) -> None:
    job = submit(num_gpus=1)
    tick()
    phases = (MemberPhase.PREPARING, MemberPhase.RUNNING)
    services.observe_all([*(seen(job, phase) for phase in phases), seen(job, MemberPhase.EXITED, 0)])
    assert state(job) == "succeeded"
    told = [(event.kind, event.data["state"]) for event in story(f"job:{job.id}")][2:]
    assert told == [
        ("MemberPreparing", "initializing"),
        ("MemberRunning", "running"),
        ("MemberExited", "succeeded"),
    ]
    attempt = Attempt.objects.get(job=job)
    assert attempt.running_ms is not None
    assert attempt.outcome.startswith("succeeded")


def test_a_job_that_was_cancelled_meanwhile_leaves_the_others_of_the_round_alone(
    submit: Submit, cluster: list[Node]
) -> None:
    gone, stays = submit(num_gpus=1), submit(num_gpus=1)
    Job.objects.filter(id=gone.id).update(state="cancelled", finished_ms=1)
    plan = [
        Placing(gone.id, seats(cluster[0], 0), "was to start"),
        Placing(stays.id, seats(cluster[0], 1), "starts"),
    ]
    assert services.place(plan, 10**13) == {stays.id}
    assert Slot.objects.exclude(attempt_id=None).count() == 1
    assert [event.kind for event in story(f"job:{gone.id}")] == ["Submitted"]


def test_a_gang_that_lost_one_of_its_slots_gets_none(submit: Submit, cluster: list[Node]) -> None:
    first, gang = submit(num_gpus=1), submit(num_gpus=2)
    plan = [
        Placing(first.id, seats(cluster[0], 1), "first"),
        Placing(gang.id, seats(cluster[0], 0, 1), "too late"),
    ]
    assert services.place(plan, 10**13) == {first.id}
    assert Member.objects.count() == 1
    assert state(gang) == "pending"


def test_a_node_without_a_port_to_meet_on_takes_no_gang(submit: Submit, cluster: list[Node]) -> None:
    Node.objects.filter(id=cluster[0].id).update(rendezvous_port_low=29500, rendezvous_port_high=29500)
    plan = [Placing(submit(num_gpus=1).id, seats(cluster[0], slot), "crowded") for slot in (0, 1)]
    assert services.place(plan, 10**13) == {plan[0].job_id}
