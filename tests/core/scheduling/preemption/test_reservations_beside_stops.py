"""Where the more urgent stop others a place is kept all the same for whoever is first, and nobody delays it."""

from __future__ import annotations

from dataclasses import replace

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.jobs.constraints import Constraints
from platform_core.scheduling.decisions import Plan
from platform_core.scheduling.engine import decide, plan, reserve_places
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

HOUR_MS = 60 * MINUTE_MS
STOPS = Policy(reservations=4, evicts=True)


def patient(gpus: int, *, name: str = "patient") -> PendingJob:
    """It has waited for so long that it comes before what is more urgent, too."""
    return pending(name, gpus, submitted_ms=NOW_MS - 9 * HOUR_MS)


def urgent(gpus: int, *, hours: int, name: str = "urgent") -> PendingJob:
    return pending(name, gpus, priority=45, max_runtime_ms=hours * HOUR_MS)


def held(where: str, slots: range, *, hours: int, priority: int = 50) -> RunningJob:
    return running(
        f"old-{where}{slots.start}",
        {where: slots},
        priority=priority,
        expected_end_ms=NOW_MS + hours * HOUR_MS,
    )


def nodes_of(made: Plan) -> dict[str, list[str]]:
    return {placement.job_id: [seat.node for seat in placement.members] for placement in made.placements}


def whom(made: Plan) -> dict[str, str]:
    return {stop.job_id: stop.for_job for stop in made.stops}


def test_whoever_deserves_slots_does_not_pass_the_first_that_deserves_them_too_where_that_delays_it() -> None:
    nodes = [node("a", free=4), node("b", free=4)]
    running_ = [held("a", range(4), hours=2), held("b", range(4), hours=5)]
    made = plan(snapshot(nodes, [patient(8), urgent(4, hours=9)], held=running_), STOPS)
    assert nodes_of(made) == {"job-urgent": ["node-b"]}


def test_nor_the_first_that_deserves_none_since_others_run_who_may_not_be_stopped() -> None:
    lasting = replace(held("a", range(4), hours=2), preemptible=False)
    queue = [patient(8), urgent(4, hours=3), urgent(1, hours=2, name="who-is-short")]
    made = plan(snapshot([node("a", free=4)], queue, held=[lasting]), STOPS)
    assert nodes_of(made) == {"job-who-is-short": ["node-a"]}


def beside_the_least_urgent(*queue: PendingJob) -> Snapshot:
    """Four of `a` end in an hour, of those that nobody stops; the other four and `b` are held by the least urgent."""
    equal, least = held("a", range(4), hours=1), held("a", range(4, 8), hours=1, priority=90)
    other = held("b", range(8), hours=9, priority=80)
    return snapshot([node("a", free=0), node("b", free=0)], queue, held=[equal, least, other])


def test_nobody_is_stopped_where_that_would_delay_the_place_of_an_earlier_one() -> None:
    first = replace(patient(8), excluded_nodes=("node-b",))
    assert whom(plan(beside_the_least_urgent(urgent(4, hours=3)), STOPS)) == {"job-old-a4": "job-urgent"}
    assert whom(plan(beside_the_least_urgent(first, urgent(4, hours=3)), STOPS)) == {
        "job-old-b0": "job-urgent"
    }
    assert whom(plan(beside_the_least_urgent(first, urgent(4, hours=1)), STOPS)) == {
        "job-old-a4": "job-urgent"
    }


def test_a_shorter_one_of_the_same_demand_may_stop_others_where_a_longer_one_would_delay_the_place() -> None:
    first = replace(patient(8), excluded_nodes=("node-b",))
    situation = beside_the_least_urgent(first, urgent(4, hours=3), urgent(4, hours=1, name="very-short"))
    equal, least, other = situation.running
    more = (
        *situation.nodes,
        node("c", taints=["lab"]),
    )  # so all of them deserve slots, as far as there are any
    situation = replace(situation, nodes=more, running=(equal, least, replace(other, priority=40)))
    assert whom(plan(situation, STOPS)) == {"job-old-a4": "job-very-short"}


def test_where_equals_stop_each_other_places_are_kept_when_all_have_made_room() -> None:
    """Whoever deserves slots has them before: the first, too, would have, if it had not to wait for one that stays."""
    first = replace(patient(8), excluded_nodes=("node-b",))
    lasting = replace(held("a", range(4), hours=2), preemptible=False)
    queue = [first, urgent(4, hours=3)]
    situation = snapshot(
        [node("a", free=4), node("b", free=0)], queue, held=[lasting, held("b", range(8), hours=9)]
    )
    made = plan(situation, Policy("shortest_remaining", reservations=1, evicts=True))
    assert (nodes_of(made), made.stops) == ({"job-urgent": ["node-a"]}, ())


def test_but_not_for_whoever_deserves_none() -> None:
    """`nowhere` deserves what is left for it, and has no use for it."""
    nowhere = pending(
        "nowhere", 4, constraints=Constraints(labels=(("nvlink", "yes"),)), max_runtime_ms=2 * HOUR_MS
    )
    lasting = replace(held("a", range(4), hours=2), preemptible=False)
    queue = [patient(8), nowhere, urgent(4, hours=9), urgent(1, hours=9, name="very-long")]
    situation = snapshot([node("a", free=4), node("c", taints=["lab"])], queue, held=[lasting])
    one = Policy("shortest_remaining", reservations=1, evicts=True)
    assert nodes_of(plan(situation, one)) == {}
    assert nodes_of(plan(situation, replace(one, reservations=0))) == {"job-urgent": ["node-a"]}


def test_a_place_kept_after_a_stop_counts_with_whoever_gets_the_room() -> None:
    """The stopped one would have ended in an hour; who takes its slots needs nine."""
    queue = [replace(urgent(8, hours=9), priority=30), pending("next", 8, priority=80)]
    stopped = held("a", range(8), hours=1, priority=80)
    decided = decide(snapshot([node("a", free=0)], queue, held=[stopped]), STOPS)
    assert [stop.job_id for stop in decided.stops] == ["job-old-a0"]
    (kept,) = reserve_places(decided, STOPS)
    assert (kept.job_id, kept.start_ms) == ("job-next", NOW_MS + 9 * HOUR_MS)


def test_a_place_on_what_a_stop_frees_besides_is_kept_until_that_has_stopped() -> None:
    """Two that are free and two of the six that leave; nobody takes those two. `nowhere` deserves the rest of them."""
    first = replace(urgent(4, hours=9), priority=30)
    nowhere = pending("nowhere", 4, priority=40, constraints=Constraints(labels=(("nvlink", "yes"),)))
    queue = [first, nowhere, pending("next", 4), pending("long", 2, priority=60, max_runtime_ms=9 * HOUR_MS)]
    stopped = held("a", range(6), hours=1, priority=80)
    decided = decide(snapshot([node("a", free=2)], queue, held=[stopped]), STOPS)
    assert [(stop.job_id, stop.for_job) for stop in decided.stops] == [("job-old-a0", "job-urgent")]
    assert decided.started == []
    assert [each.job_id for each in decided.state.reservations.made] == ["job-next", "job-long"]


def test_a_round_that_keeps_a_place_for_an_owner_makes_no_room_on_it() -> None:
    """It used to give the free slots of that place away, and the next place was then counted from less than none."""
    lasting = replace(held("a", range(4), hours=2), preemptible=False, team="nlp")
    owner = pending("owner", 8)
    queue = [owner, *[pending(name, 4, team="nlp", max_runtime_ms=9 * HOUR_MS) for name in ("one", "two")]]
    teams = [team(guaranteed=8), team("nlp", used=4)]
    decided = decide(
        snapshot([node("a", free=4)], queue, held=[lasting], teams=teams), replace(STOPS, reclaims=True)
    )
    kept = {each.job_id: each.start_ms - NOW_MS for each in decided.state.reservations.made}
    assert kept["job-owner"] == 2 * HOUR_MS
    assert decided.started == []


def test_a_place_is_kept_for_the_first_also_where_only_its_quota_is_missing() -> None:
    queue = [patient(6), urgent(2, hours=3)]
    teams = [team(maximum=6, used=4)]
    situation = snapshot(
        [node("a", free=4), node("b")], queue, held=[held("a", range(4), hours=2)], teams=teams
    )
    decided = decide(situation, STOPS)
    assert decided.started == []
    assert [each.job_id for each in decided.state.reservations.made][:1] == ["job-patient"]
