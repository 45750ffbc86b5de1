"""What is a team's own: lent while it is not needed, given back when it is, and never taken by others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import RunningJob, Snapshot, TeamShare
from platform_core.scheduling.decisions import StopKind
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

HOUR_MS = 60 * MINUTE_MS
RECLAIMS = Policy(reclaims=True)
EVICTS = Policy("shortest_remaining", evicts=True, reclaims=True)


def theirs(name: str, where: dict[str, range], *, whose: str = "nlp", ran_ms: int = HOUR_MS) -> RunningJob:
    begun = NOW_MS - ran_ms
    return running(name, where, team=whose, started_ms=begun, expected_end_ms=NOW_MS + 50 * HOUR_MS)


def shares(nlp: int, vision: int, *, nlp_used: int, vision_used: int = 0) -> list[TeamShare]:
    return [
        team("nlp", guaranteed=nlp, maximum=100, used=nlp_used),
        team("vision", guaranteed=vision, maximum=100, used=vision_used),
    ]


def test_the_owner_gets_back_what_it_lent() -> None:
    held = [theirs("own", {"a": range(4)}), theirs("borrowed", {"a": range(4, 8)})]
    teams = shares(nlp=4, vision=4, nlp_used=8)
    made = plan(snapshot([node("a", free=0)], [pending("x", 4)], held=held, teams=teams), RECLAIMS)
    (stop,) = made.stops
    assert (stop.for_job, stop.kind) == ("job-x", StopKind.RECLAIMED)


@pytest.mark.parametrize(
    ("gpus", "nlp", "vision"),
    [(5, 4, 4), (4, 8, 4), (4, 4, 3)],
    ids=["beyond", "lent nothing", "not guaranteed"],
)
def test_what_is_not_guaranteed_is_not_taken_back(gpus: int, nlp: int, vision: int) -> None:
    held = [theirs("own", {"a": range(4)}), theirs("other", {"a": range(4, 8)})]
    teams = shares(nlp=nlp, vision=vision, nlp_used=8)
    situation = snapshot([node("a", free=0)], [pending("x", gpus)], held=held, teams=teams)
    assert plan(situation, RECLAIMS).stops == ()


def test_nobody_takes_back_what_an_earlier_one_of_its_team_still_waits_for() -> None:
    """Of the guarantee of four the first takes three; the third would fit into the rest, but the second comes first."""
    held = [theirs(f"borrowed-{slot}", {"a": range(slot, slot + 1)}) for slot in range(8)]
    queue = [
        pending(name, gpus, priority=urgency)
        for urgency, (name, gpus) in enumerate([("first", 3), ("second", 2), ("third", 1)])
    ]
    teams = shares(nlp=0, vision=4, nlp_used=8)
    made = plan(snapshot([node("a", free=0)], queue, held=held, teams=teams), RECLAIMS)
    assert [stop.for_job for stop in made.stops] == ["job-first"] * 3


def test_one_that_asks_for_more_than_the_guarantee_keeps_nobody_from_it() -> None:
    held = [theirs(f"borrowed-{slot}", {"a": range(slot, slot + 1)}) for slot in range(8)]
    queue = [pending("beyond", 8, priority=0), pending("within", 2)]
    teams = shares(nlp=0, vision=4, nlp_used=8)
    made = plan(snapshot([node("a", free=0)], queue, held=held, teams=teams), RECLAIMS)
    assert [stop.for_job for stop in made.stops] == ["job-within"] * 2


def test_a_guarantee_does_not_ask_for_priority() -> None:
    held = [replace(theirs("borrowed", {"a": range(8)}), priority=0)]
    teams = shares(nlp=0, vision=8, nlp_used=8)
    patient = pending("x", 8, priority=100)
    assert plan(snapshot([node("a", free=0)], [patient], held=held, teams=teams), RECLAIMS).stops


def test_a_borrower_has_its_least_run() -> None:
    held = [theirs("borrowed", {"a": range(8)}, ran_ms=4 * MINUTE_MS)]
    teams = shares(nlp=0, vision=8, nlp_used=8)
    assert (
        plan(snapshot([node("a", free=0)], [pending("x", 8)], held=held, teams=teams), RECLAIMS).stops == ()
    )


def test_the_wait_says_when_the_least_run_of_the_borrower_ends() -> None:
    """Of the two that borrowed the one that may go first is enough."""
    held = [
        theirs("younger", {"a": range(4)}, ran_ms=MINUTE_MS), theirs("older", {"a": range(4, 8)}, ran_ms=3 * MINUTE_MS)
    ]  # fmt: skip
    teams = shares(nlp=0, vision=4, nlp_used=8)
    (wait,) = plan(snapshot([node("a", free=0)], [pending("x", 4)], held=held, teams=teams), RECLAIMS).waits
    assert wait.sentence.endswith(
        "; job-older holds slots that team vision is guaranteed and may be stopped for it in 2 min, "
        "after its first 5 min"
    )
    assert dict(wait.numbers)["reclaim_ms"] == NOW_MS + 2 * MINUTE_MS


def test_the_wait_names_all_borrowers_that_it_takes_and_the_last_of_them_counts() -> None:
    held = [
        theirs("younger", {"a": range(4)}, ran_ms=MINUTE_MS), theirs("older", {"a": range(4, 8)}, ran_ms=3 * MINUTE_MS)
    ]  # fmt: skip
    teams = shares(nlp=0, vision=8, nlp_used=8)
    (wait,) = plan(snapshot([node("a", free=0)], [pending("x", 8)], held=held, teams=teams), RECLAIMS).waits
    assert "; job-younger, job-older hold slots that team vision is guaranteed" in wait.sentence
    assert wait.sentence.endswith("in 4 min, after their first 5 min")


@pytest.mark.parametrize(
    ("gpus", "nlp", "policy"),
    [(8, 8, RECLAIMS), (5, 0, RECLAIMS), (4, 0, Policy())],
    ids=["nothing is borrowed", "beyond its guarantee", "switched off"],
)
def test_a_wait_that_ends_with_no_reclaim_says_nothing_of_it(gpus: int, nlp: int, policy: Policy) -> None:
    held = [theirs("theirs", {"a": range(8)}, ran_ms=MINUTE_MS)]
    teams = shares(nlp=nlp, vision=4, nlp_used=8)
    (wait,) = plan(snapshot([node("a", free=0)], [pending("x", gpus)], held=held, teams=teams), policy).waits
    assert "guaranteed" not in wait.sentence


def test_a_team_loses_only_what_is_beyond_its_own() -> None:
    """Two jobs of four would have to go for a gang of eight; the team has borrowed only four."""
    held = [theirs(name, {name: range(4)}) for name in "abc"]
    nodes = [node(name, slots=4, free=0) for name in "abc"]
    teams = shares(nlp=8, vision=8, nlp_used=12)
    gang, small = pending("gang", 8), pending("small", 4)
    assert plan(snapshot(nodes, [gang], held=held, teams=teams), RECLAIMS).stops == ()
    assert len(plan(snapshot(nodes, [small], held=held, teams=teams), RECLAIMS).stops) == 1


def test_a_job_that_could_never_run_within_the_guarantee_is_borrowed_as_a_whole() -> None:
    held = [theirs("large", {"a": range(8), "b": range(8)})]
    teams = shares(nlp=8, vision=8, nlp_used=16)
    nodes = [node("a", free=0), node("b", free=0)]
    made = plan(snapshot(nodes, [pending("x", 8)], held=held, teams=teams), RECLAIMS)
    assert made.preemptions == ("job-large",)


def test_the_fewest_that_make_a_place_are_stopped_wherever_they_are() -> None:
    held = [theirs(name, {name: range(2)}) for name in "abc"] + [theirs("whole", {"d": range(2, 4)})]
    nodes = [*(node(name, slots=4, free=(2,)) for name in "abc"), node("d", slots=4, free=(0, 1))]
    teams = shares(nlp=2, vision=4, nlp_used=8)
    made = plan(snapshot(nodes, [pending("x", 4)], held=held, teams=teams), RECLAIMS)
    assert made.preemptions == ("job-whole",)


def test_no_team_is_evicted_below_its_guarantee_for_another() -> None:
    long = theirs("long", {"a": range(8)})
    short = pending("short", 8, max_runtime_ms=HOUR_MS)
    for guaranteed, stopped in ((8, ()), (7, ("job-long",))):
        teams = shares(nlp=guaranteed, vision=0, nlp_used=8)
        situation = snapshot([node("a", free=0)], [short], held=[long], teams=teams)
        assert plan(situation, EVICTS).preemptions == stopped


def test_within_a_team_priority_and_size_decide() -> None:
    long = theirs("long", {"a": range(8)}, whose="vision")
    short = pending("short", 8, max_runtime_ms=HOUR_MS)
    teams = shares(nlp=0, vision=8, nlp_used=0, vision_used=8)
    made = plan(snapshot([node("a", free=0)], [short], held=[long], teams=teams), EVICTS)
    assert made.preemptions == ("job-long",)


def test_without_the_policy_the_owner_waits() -> None:
    held = [theirs("borrowed", {"a": range(8)})]
    teams = shares(nlp=0, vision=8, nlp_used=8)
    assert plan(snapshot([node("a", free=0)], [pending("x", 8)], held=held, teams=teams)).stops == ()


@given(snapshot=snapshots())
def test_within_a_priority_nobody_envies_an_equal_that_started(snapshot: Snapshot) -> None:
    """Whoever waits beside a job that started and asks for the same comes after it in order, or has no quota."""
    made = plan(snapshot)
    jobs = {job.id: job for job in snapshot.pending}
    place_in_order = {job_id: number for number, job_id in enumerate(made.order)}
    room = {(share.team, share.gpu_type): share.maximum - share.used for share in snapshot.teams}
    for placement in made.placements:
        job = jobs[placement.job_id]
        room[job.team, job.gpu_type] -= job.num_gpus
    for wait in made.waits:
        envious = jobs[wait.job_id]
        if room.get((envious.team, envious.gpu_type), 0) < envious.num_gpus:
            continue
        for placement in made.placements:
            job = jobs[placement.job_id]
            same = replace(job, id=envious.id, team=envious.team, submitted_ms=envious.submitted_ms,
                           waiting_since_ms=envious.waiting_since_ms, priority=envious.priority)  # fmt: skip
            if same == envious:
                assert place_in_order[job.id] < place_in_order[envious.id]


@st.composite
def lent(draw: st.DrawFn) -> Snapshot:
    """Full nodes of four, jobs of three teams with guarantees that the cluster can keep."""
    names = ("a", "b", "c")
    nodes, held = [], []
    for number in range(draw(st.integers(1, 4))):
        slot = 0
        while slot < 4:
            gpus = min(4 - slot, draw(st.sampled_from([1, 1, 2, 4])))
            held.append(
                replace(
                    theirs(
                        f"r{number}-{slot}",
                        {f"n{number}": range(slot, slot + gpus)},
                        whose=draw(st.sampled_from(names)),
                        ran_ms=draw(st.sampled_from([MINUTE_MS, HOUR_MS])),
                    ),
                    preemptible=draw(st.integers(0, 5)) > 0,
                )
            )
            slot += gpus
        nodes.append(node(f"n{number}", slots=4, free=0))
    left = 4 * len(nodes)
    teams = []
    for name in names:
        own = draw(st.integers(0, left))
        left -= own
        used = sum(job.held for job in held if job.team == name)
        teams.append(team(name, guaranteed=own, maximum=100, used=used))
    queue = [
        pending(f"q{number}", draw(st.sampled_from([1, 1, 2, 4])), team=draw(st.sampled_from(names)))
        for number in range(draw(st.integers(1, 4)))
    ]
    return snapshot(nodes, queue, held=held, teams=teams)


@given(situation=lent(), evicts=st.booleans())
def test_whoever_is_stopped_for_another_team_had_borrowed(situation: Snapshot, evicts: bool) -> None:
    """Its team keeps its guarantee, or has it until the last is stopped, a job that does not fit into it; and none that
    has just begun is reclaimed."""
    made = plan(situation, EVICTS if evicts else RECLAIMS)
    held = {job.id: job for job in situation.running}
    queue = {job.id: job for job in situation.pending}
    for share in situation.teams:
        mine = [
            held[stop.job_id].held
            for stop in made.stops
            if held[stop.job_id].team == share.team and queue[stop.for_job].team != share.team
        ]
        kept = share.used - sum(mine)
        assert not mine or kept >= share.guaranteed or kept + mine[-1] > share.guaranteed
    for stop in made.stops:
        assert held[stop.job_id].preemptible
        if stop.kind is StopKind.RECLAIMED:
            assert NOW_MS - held[stop.job_id].started_ms >= 5 * MINUTE_MS


@given(situation=lent())
def test_no_guaranteed_single_job_waits_while_a_settled_borrower_runs(situation: Snapshot) -> None:
    made = plan(situation, RECLAIMS)
    going = {stop.job_id for stop in made.stops}
    served = {stop.for_job for stop in made.stops}
    staying = {share.team: share.used for share in situation.teams}
    own = {share.team: share.guaranteed for share in situation.teams}
    entitled = {share.team: share.used for share in situation.teams}
    larger = {share.team: any(job.num_gpus > 1 and job.team == share.team for job in situation.pending)
              for share in situation.teams}  # fmt: skip
    for job in situation.running:
        if job.id in going:
            staying[job.team] -= job.held
    borrowers = [
        job
        for job in situation.running
        if job.preemptible
        and job.id not in going
        and staying[job.team] > own[job.team]
        and NOW_MS - job.started_ms >= 5 * MINUTE_MS
    ]
    for job in sorted(situation.pending, key=lambda job: made.order.index(job.id)):
        if job.id in served or any(
            "stopping jobs release slots for it" in w.sentence for w in made.waits if w.job_id == job.id
        ):
            entitled[job.team] += job.num_gpus
        elif not larger[job.team] and entitled[job.team] + 1 <= own[job.team]:
            assert [each for each in borrowers if each.team != job.team] == []


@given(situation=lent())
def test_no_stop_is_pointless(situation: Snapshot) -> None:
    """Without any one of the victims, the job for which they are stopped would have no place."""
    made = plan(replace(situation, pending=situation.pending[:1]), RECLAIMS)
    (job,) = situation.pending[:1]
    held = {each.id: each for each in situation.running}
    for spared in made.preemptions:
        freed = [slots for stop in made.preemptions if stop != spared for slots in held[stop].placement]
        free = {each.id: list(each.free_slots) for each in situation.nodes}
        for name, slots in freed:
            free[name] += slots
        nodes = [replace(each, free_slots=tuple(sorted(free[each.id]))) for each in situation.nodes]
        assert plan(replace(situation, nodes=tuple(nodes), pending=(job,), running=())).placements == ()
