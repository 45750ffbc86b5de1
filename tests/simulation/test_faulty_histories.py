"""Whatever fails, is taken away, is stopped or resized: what holds for every history."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.checkpointing import restore
from platform_core.cluster.health import DEFAULT_LIMITS
from platform_core.cluster.snapshot import Snapshot, TeamShare
from platform_core.jobs import gang, grace
from platform_core.jobs.effects import HintScheduler, ReleaseSlots
from platform_core.jobs.job import Stop
from platform_core.scheduling.engine import Decisions, decide
from platform_core.scheduling.policy import Policy
from platform_core.simulation import jobs as simulated
from platform_core.simulation.cluster import Cluster
from platform_core.simulation.nodes import Nodes
from platform_core.simulation.report import report
from platform_core.simulation.workload import Departure, Saving, TraceJob, restart_ms
from tests.core.scheduling.situations import node

SLOTS = (4, 4, 2)
POLICIES = {
    "as production": Policy(reservations=2, reclaims=True, elastic=True),
    "ours": Policy("size_and_wait", reservations=1, evicts=True, migrates=True, reclaims=True, elastic=True),
    "shortest first": Policy("shortest_remaining", evicts=True),
}
SAVINGS = [
    Saving(),
    Saving(when_stopped=False),
    Saving(takes_ms=20_000),
    Saving(every_ms=60_000),
    Saving(every_ms=60_000, takes_ms=5_000),
    Saving(every_ms=90_000, takes_ms=70_000),  # more than the grace
    Saving(every_ms=60_000, takes_ms=10_000, when_stopped=False),
]


@dataclass(frozen=True)
class Story:
    jobs: list[TraceJob]
    shares: list[TeamShare]
    gone: list[Departure]
    spot: frozenset[str]


@st.composite
def classes(draw: st.DrawFn, number: int) -> TraceJob:
    gpus, duration_s = draw(st.sampled_from([1, 1, 2, 4, 8])), draw(st.integers(1, 4_000))
    return TraceJob(
        f"j{number:02}",
        draw(st.integers(0, 3_000)) * 1_000,
        gpus,
        duration_s * 1_000,
        duration_s * draw(st.sampled_from([1_000, 3_000])),
        draw(st.sampled_from("aabc")),
        draw(st.sampled_from([20, 50, 50])),
        preemptible=draw(st.sampled_from([True, True, False])),
        min_gpus=draw(st.sampled_from([0, 0, (gpus + 1) // 2])),
        saving=draw(st.sampled_from(SAVINGS)),
    )


@st.composite
def away(draw: st.DrawFn) -> list[Departure]:
    """Nodes go again and again, perhaps while they are away; one may stay away."""
    gone = []
    for _ in range(draw(st.integers(0, 8))):
        at_ms = draw(st.integers(0, 6_000)) * 1_000
        back_ms = at_ms + draw(st.sampled_from([0, 5_000, 20_000, 45_000, 600_000, 2_000_000]))
        notice_ms = draw(st.sampled_from([0, 0, 10_000, 120_000]))
        gone.append(Departure(f"node-n{draw(st.integers(0, 2))}", at_ms, notice_ms, back_ms))
    return sorted(gone, key=lambda each: (each.at_ms, each.node))


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Three teams; what c asks for beyond four slots is refused, and b's own two can always be kept."""
    shares = [
        TeamShare("a", "a100", 0, sum(SLOTS), 0, 1.0, 1.0),
        TeamShare("b", "a100", 2, sum(SLOTS), 0, 1.0, 1.0),
        TeamShare("c", "a100", 1, 4, 0, 1.0, 1.0),
    ]
    jobs = [draw(classes(number)) for number in range(draw(st.integers(1, 12)))]
    spot = frozenset(draw(st.sets(st.sampled_from(["node-n1", "node-n2"]), max_size=1)))
    return Story(jobs, shares, draw(away()), spot)


class Judge:
    """Looks at what each round was told and decided, without believing the simulator's own books."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.jobs = {job.id: job for job in story.jobs}
        self.seen: set[str] = set()

    def __call__(self, snapshot: Snapshot, policy: Policy) -> Decisions:
        decided = decide(snapshot, policy)
        held = Counter(
            (name, slot) for job in snapshot.running for name, taken in job.placement for slot in taken
        )
        held.update((each.id, slot) for each in snapshot.nodes for slot in each.free_slots)
        assert held == {(each.id, slot): 1 for each in snapshot.nodes for slot in range(each.slots)}
        for running in snapshot.running:
            told = self.jobs[running.id]
            assert running.stopping or (told.min_gpus or told.gpus) <= running.held <= told.gpus
        for share in snapshot.teams:
            assert share.used == sum(job.held for job in snapshot.running if job.team == share.team)
            new = sum(
                len(seat.slots)
                for job, placement in decided.started
                if job.team == share.team
                for seat in placement.members
            )
            assert share.used + new <= share.maximum
        self._nobody_is_lost(snapshot)
        for job, placement in decided.started:
            on_spot = self.story.spot.intersection(seat.node for seat in placement.members)
            assert not on_spot or job.preemptible
        return decided

    def _nobody_is_lost(self, snapshot: Snapshot) -> None:
        told = Counter(job.id for job in (*snapshot.pending, *snapshot.running))
        assert max(told.values(), default=1) == 1
        self.seen.update(told)


def played(story: Story, policy: Policy, judge: Judge | None = None) -> Cluster:
    nodes = [node(f"n{number}", slots=slots) for number, slots in enumerate(SLOTS)]
    marked = [
        replace(each, taints=("spot",), labels=(("spot", "yes"),)) if each.id in story.spot else each
        for each in nodes
    ]
    cluster = Cluster(
        marked,
        story.jobs,
        policy,
        shares=story.shares,
        decider=judge or decide,
        departures=story.gone,
    )
    cluster.play()
    return cluster


def refused(story: Story) -> set[str]:
    most = {share.team: share.maximum for share in story.shares}
    return {job.id for job in story.jobs if job.gpus > most[job.team]}


def hopeless(story: Story) -> set[str]:
    """Those for whom there are too few nodes that they may go to."""
    fixed = sum(slots for number, slots in enumerate(SLOTS) if f"node-n{number}" not in story.spot)
    return {
        job.id
        for job in story.jobs
        if not job.preemptible and (job.min_gpus or job.gpus) > fixed - fixed % min(job.gpus, 4)
    }


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
@settings(max_examples=80)
@given(story=stories())
def test_every_job_ends_once_and_no_round_is_told_of_a_slot_twice_or_a_broken_gang(
    policy: Policy, story: Story
) -> None:
    judge = Judge(story)
    cluster = played(story, policy, judge)
    ledger = cluster.ledger
    ended = Counter([*[each.job.id for each in ledger.outcomes], *ledger.failed, *cluster.never_started])
    assert ended == {job.id: 1 for job in story.jobs}
    assert refused(story) <= set(cluster.never_started) <= refused(story) | hopeless(story)
    assert not judge.seen & refused(story)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
@settings(max_examples=80)
@given(story=stories())
def test_what_is_lost_with_an_attempt_is_no_more_than_an_interval_and_the_restart(
    policy: Policy, story: Story
) -> None:
    """Until a node's silence is noticed and its peers are killed, the slots are held; that is lost too, and so is the
    time in which a gang cannot begin for a node of which nobody knows yet that it has gone."""
    fixed = [replace(job, min_gpus=0) for job in story.jobs if job.saving.every_ms]
    ledger = played(replace(story, jobs=fixed), policy).ledger
    for each in ledger.outcomes:
        saving, again = each.job.saving, each.attempts - 1
        silent_ms, grace_ms = DEFAULT_LIMITS.lost_ms, grace.GRACE_MS[Stop.PREEMPT]
        once_ms = saving.every_ms + saving.takes_ms + silent_ms + grace_ms + restart_ms(each.job.gpus)
        saves = each.job.duration_ms // saving.every_ms + again
        work_ms = each.job.duration_ms + saves * saving.takes_ms
        assert each.held_ms <= work_ms + again * once_ms + each.attempts * silent_ms
        assert each.held_ms >= each.job.duration_ms
        assert each.queued_ms >= 0


@settings(max_examples=40)
@given(story=stories())
def test_who_saves_when_stopped_loses_nothing_where_no_node_fails(story: Story) -> None:
    quick = [replace(job, saving=Saving(takes_ms=20_000)) for job in story.jobs]
    ledger = played(Story(quick, story.shares, [], frozenset()), POLICIES["ours"]).ledger
    stops = ledger.preemptions + ledger.resizes
    assert ledger.restarts == 0
    assert ledger.lost_gpu_ms <= stops * max(restart_ms(job.gpus) * job.gpus for job in quick)


def busy(number: int = 60) -> Story:
    jobs = [
        TraceJob(
            f"j{n:03}", n * 37_000 % 1_900_000, (1, 2, 4, 8, 1)[n % 5], (20 + n * 97 % 900) * 1_000, 3_600_000,
            "ab"[n % 2], (20, 50)[n % 3 == 0], preemptible=n % 7 != 0, min_gpus=(0, 1)[n % 4 == 0],
            saving=SAVINGS[n % len(SAVINGS)],
        )
        for n in range(number)
    ]  # fmt: skip
    shares = [TeamShare(team, "a100", own, 10, 0, 1.0, 1.0) for team, own in (("a", 2), ("b", 4))]
    gone = [
        Departure(f"node-n{n % 3}", n * 400_000, (0, 120_000)[n % 2], n * 400_000 + 300_000)
        for n in range(1, 40)
    ]
    return Story(jobs, shares, gone, frozenset({"node-n2"}))


def reports() -> str:
    return json.dumps([report(played(busy(), policy).ledger) for policy in POLICIES.values()])


def test_the_report_of_a_history_with_failures_is_the_same_under_another_hash_seed() -> None:
    code = "from tests.simulation.test_faulty_histories import reports; print(reports())"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert told == {reports()}


def test_the_busy_history_has_all_that_can_go_wrong() -> None:
    for each in json.loads(reports()):
        assert each["preemptions"] > 0
        assert each["restarts"] > 0
        assert each["node_failures"] > 0
        assert each["spot_notices"] > 0
        assert each["jobs"] + each["failed"] == 60


def test_a_restart_from_another_checkpoint_than_the_newest_good_one_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        restore, "newest_first", lambda kept: sorted(kept, key=lambda one: (one.attempt, one.step))
    )
    with pytest.raises(RuntimeError, match="goes on from 'j"):
        reports()


def test_a_job_that_forgets_its_checkpoint_when_it_fails_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    recover = gang._recover
    monkeypatch.setattr(
        gang, "_recover", lambda job, *others: replace(recover(job, *others), latest_checkpoint="")
    )
    with pytest.raises(RuntimeError, match="goes on from ''"):
        reports()


def test_slots_that_are_not_released_are_noticed_after_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(*arguments: object, **options: object) -> object:
        step = advance(*arguments, **options)  # type: ignore[arg-type]
        kept = tuple(HintScheduler() if isinstance(each, ReleaseSlots) else each for each in step.effects)
        return replace(step, effects=kept)

    advance = simulated.advance
    monkeypatch.setattr(simulated, "advance", forgetful)
    with pytest.raises(RuntimeError, match=r"is held by j0.*, which does not run there"):
        reports()


def test_a_gang_that_nobody_tells_of_its_lost_node_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nodes, "sweep", lambda *_: ())
    with pytest.raises(RuntimeError, match=r"can happen any more, and .* still run"):
        played(replace(busy(), gone=[Departure("node-n0", 400_000, 0)]), POLICIES["ours"])
