"""Each rule about stopping and waiting matters: with the rule switched off, a test of it fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from platform_core.cluster.snapshot import PendingJob
from platform_core.scheduling import engine
from platform_core.scheduling.ordering import overuse, size_and_wait
from platform_core.scheduling.preemption import elastic, eviction, offers
from platform_core.scheduling.preemption import reclaim as lending
from platform_core.scheduling.reservations.quota_ledger import QuotaLedger
from platform_core.scheduling.state.round_state import RoundState
from tests.core.scheduling import test_restarts as restarts
from tests.core.scheduling.dropping import Rule, assert_noticed
from tests.core.scheduling.ordering import test_fairness as fairness
from tests.core.scheduling.ordering import test_size_and_wait as ours
from tests.core.scheduling.preemption import test_elastic as stretching
from tests.core.scheduling.preemption import test_eviction as stopping
from tests.core.scheduling.preemption import test_migrations as moves
from tests.core.scheduling.reservations import test_own_maximum as maximum
from tests.simulation import test_bounded_waits as bounded
from tests.simulation import test_fair_histories as histories


def _without_wait(
    self: Any, priority: int, left_ms: float, gpus: int, waited_ms: float, counts: float = 1.0
) -> float:
    return priority * size_and_wait.PRIORITY_STEP + left_ms * counts


def _who_fits_alone(queue: Sequence[PendingJob], state: RoundState) -> set[str]:
    asked, owners = Counter[str](), set[str]()
    for job in queue:
        if state.quota.guarantees(job.team, job.gpu_type, asked[job.team] + job.min_gpus):
            asked[job.team] += job.min_gpus
            owners.add(job.id)
    return owners


def _none_after_one_that_does_not_fit(queue: Sequence[PendingJob], state: RoundState) -> set[str]:
    asked, owners = Counter[str](), set[str]()
    for job in queue:
        asked[job.team] += job.min_gpus
        if state.quota.guarantees(job.team, job.gpu_type, asked[job.team]):
            owners.add(job.id)
    return owners


RULES: dict[str, Rule] = {
    "a running job is stopped only for a much smaller one": (
        size_and_wait,
        "HELD_PART",
        1.0,
        ours.test_a_job_stops_one_with_much_more_left_and_not_one_with_a_little_more,
    ),
    "in the order of priorities only the less urgent are stopped": (
        eviction.Eviction,
        "_comes_later",
        lambda self, held, job, key: held.key > key,
        stopping.test_in_the_order_of_priorities_equals_never_stop_each_other_in_turn,
    ),
    "a least run before a stop": (
        size_and_wait,
        "LEAST_RUN_MS",
        0,
        ours.test_a_job_that_has_just_begun_is_left_alone_by_its_equals,
    ),
    "a least run before a more urgent one": (
        eviction.Eviction,
        "_comes_later",
        lambda self, held, job, key: held.key > key and held.job.priority > job.priority,
        stopping.test_one_that_has_just_begun_is_not_stopped_however_urgent_the_other_is,
    ),
    "unsaved work counts": (
        size_and_wait,
        "lost_by_stopping_ms",
        lambda job, now_ms: 0,
        ours.test_a_job_that_would_lose_as_much_as_it_has_left_is_not_stopped_by_its_equals,
    ),
    "room is made where the least is lost": (
        eviction,
        "lost_by_stopping_ms",
        lambda job, now_ms: 0,
        ours.test_room_is_made_where_the_least_is_lost,
    ),
    "what a team has used is forgiven": (
        overuse,
        "FORGIVEN_MS",
        10**18,
        bounded.test_the_gang_of_a_team_beyond_its_share_starts_though_others_never_stop_sending_jobs,
    ),
    "of equals whoever loses least stops": (
        eviction,
        "_cheapest_last",
        lambda running, now_ms: running,
        lambda: restarts.test_of_equals_those_who_lose_least_stop_whoever_came_last(
            ("middling", "dear", "cheap")
        ),
    ),
    "priority comes before size and wait": (
        size_and_wait,
        "PRIORITY_STEP",
        0.0,
        ours.test_a_more_urgent_job_is_never_stopped_and_a_less_urgent_one_always_may_be,
    ),
    "nobody is stopped beyond a quota": (
        QuotaLedger,
        "short_of",
        lambda self, job: 0,
        maximum.test_it_stops_one_of_its_own_jobs_though_other_slots_are_free,
    ),
    "a least run before a move": (
        eviction,
        "LEAST_RUN_BEFORE_MIGRATION_MS",
        0,
        ours.test_nobody_is_moved_twice_in_half_an_hour_or_for_a_short_or_an_equally_large_job,
    ),
    "a move must be worth it": (
        eviction,
        "GAIN_OF_MIGRATION",
        0,
        ours.test_nobody_is_moved_twice_in_half_an_hour_or_for_a_short_or_an_equally_large_job,
    ),
    "only smaller jobs make way": (
        eviction.Eviction,
        "_may_move",
        lambda self, held, job, key: (
            self._state.snapshot.now_ms - held.job.started_ms >= eviction.LEAST_RUN_BEFORE_MIGRATION_MS
        ),
        ours.test_nobody_is_moved_twice_in_half_an_hour_or_for_a_short_or_an_equally_large_job,
    ),
    "only some jobs make way": (
        eviction.Eviction,
        "_may_move",
        lambda *_: True,
        ours.test_a_more_urgent_job_is_not_moved_and_without_the_policy_nobody_is,
    ),
    "a move where nobody undeserving can be stopped": (
        eviction.Eviction,
        "_may_move",
        lambda *_: False,
        ours.test_a_smaller_job_is_moved_where_the_free_slots_are_in_pieces_and_finds_others,
    ),
    "waiting halves the size": (
        size_and_wait.Scale,
        "rank",
        _without_wait,
        ours.test_a_size_counts_half_for_each_half_life_waited,
    ),
    "the half-life is a part of the backlog": (
        size_and_wait,
        "HALF_LIFE_PART",
        0.5,
        ours.test_whoever_has_waited_for_twice_the_backlog_goes_before_every_newcomer,
    ),
    "beyond a large part of the backlog size hardly counts": (
        size_and_wait,
        "LARGE_POWER",
        1.0,
        ours.test_among_jobs_that_are_large_beside_the_backlog_the_older_goes_first,
    ),
    "the few that are huge come later": (
        size_and_wait,
        "HUGE_LATER_PART",
        0.0,
        ours.test_a_job_that_would_hold_the_whole_cluster_for_long_waits_for_the_many,
    ),
    "GPUs count by their root": (
        size_and_wait,
        "sqrt",
        lambda gpus: 1.0,
        ours.test_time_left_and_the_root_of_the_gpus_make_the_size,
    ),
    "a limit that says nothing is not believed": (
        size_and_wait,
        "_level_ms",
        lambda had_ms: 1,
        ours.test_without_stated_limits_the_least_run_goes_first,
    ),
    "a least run before growing": (
        elastic,
        "LEAST_RUN_BEFORE_GROWING_MS",
        0,
        stretching.test_a_job_that_has_begun_lately_does_not_grow,
    ),
    "a least run before shrinking": (
        elastic,
        "LEAST_RUN_BEFORE_SHRINKING_MS",
        0,
        stretching.test_a_job_that_has_just_begun_is_not_shrunk_for_its_equals,
    ),
    "nobody grows while others wait": (
        elastic,
        "_wanted_types",
        lambda state, waiting: set(),
        stretching.test_it_does_not_grow_while_somebody_waits_for_the_same_type,
    ),
    "growing must be worth it": (
        elastic,
        "GAIN_OF_GROWING",
        0,
        stretching.test_a_job_that_is_soon_over_does_not_grow,
    ),
    "only the stops that are needed": (
        elastic,
        "least_stops",
        lambda cheapest_first, fits: list(cheapest_first),
        stretching.test_the_cheapest_is_shrunk_and_whoever_need_not_be_is_left_alone,
    ),
    "whoever is resized goes first": (
        engine,
        "_put_first",
        lambda ranked, state, policy: ((), ranked),
        stretching.test_whoever_is_resized_goes_before_more_urgent_ones,
    ),
    "shrinking comes before evicting": (
        engine,
        "_free_capacity",
        lambda *_: False,
        stretching.test_it_is_shrunk_before_anybody_is_evicted,
    ),
    "nobody is stopped for whom others are leaving already": (
        engine,
        "claim_released",
        lambda *_: False,
        stretching.test_while_one_is_saving_nobody_else_is_stopped_for_the_same_job,
    ),
    "only borrowers give back": (
        lending,
        "may_all_stop",
        lambda state, jobs: True,
        fairness.test_a_team_loses_only_what_is_beyond_its_own,
    ),
    "only what is guaranteed is taken back": (
        engine,
        "owners_of",
        lambda queue, state: {job.id for job in queue},
        lambda: fairness.test_what_is_not_guaranteed_is_not_taken_back(4, 4, 3),
    ),
    "nobody passes an earlier one of the same team": (
        engine,
        "owners_of",
        _who_fits_alone,
        fairness.test_nobody_takes_back_what_an_earlier_one_of_its_team_still_waits_for,
    ),
    "who can only borrow holds nobody of its team up": (
        engine,
        "owners_of",
        _none_after_one_that_does_not_fit,
        fairness.test_one_that_asks_for_more_than_the_guarantee_keeps_nobody_from_it,
    ),
    "a borrower has its least run": (
        lending,
        "LEAST_RUN_BEFORE_RECLAIM_MS",
        0,
        fairness.test_a_borrower_has_its_least_run,
    ),
    "the owner gets it back": (
        engine,
        "reclaim_for",
        lambda *_: False,
        histories.test_every_team_has_its_guarantee_in_a_busy_history,
    ),
    "owners go before borrowers": (
        engine,
        "_put_first",
        lambda ranked, state, policy: ((), ranked),
        histories.test_what_was_reclaimed_is_not_taken_again_by_the_borrower,
    ),
    "nobody is evicted below a guarantee": (
        RoundState,
        "surplus",
        lambda *_: 1_000,
        fairness.test_no_team_is_evicted_below_its_guarantee_for_another,
    ),
    "the dearest are spared": (
        lending,
        "least_stops",
        lambda cheapest_first, fits: list(cheapest_first),
        fairness.test_the_fewest_that_make_a_place_are_stopped_wherever_they_are,
    ),
    "what a stop frees is not given away": (
        offers.Offers,
        "take",
        lambda self, taken, each: [],
        stopping.test_the_room_made_for_one_job_is_not_given_to_the_next,
    ),
    "where a job is to be moved nobody goes in that round": (
        RoundState,
        "reserve_place",
        lambda state, job: None,
        moves.test_the_round_that_moves_a_job_keeps_its_new_place,
    ),
    "nor while it saves": (
        RoundState,
        "reserve_place",
        lambda state, job: None,
        moves.test_nobody_takes_it_while_the_moved_one_saves,
    ),
    "for a bounded time": (
        RoundState,
        "reservation_counts",
        lambda self, job: True,
        moves.test_it_is_kept_for_a_bounded_time_only,
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_dropping_a_rule_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_noticed(RULES[rule], monkeypatch)
