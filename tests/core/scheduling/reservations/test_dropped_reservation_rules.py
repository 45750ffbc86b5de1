"""Each rule about what is kept for those who wait matters: with the rule switched off, a test of it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from platform_core.scheduling import engine
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.preemption import eviction
from platform_core.scheduling.reservations.nodes import Reservations
from platform_core.scheduling.reservations.quota_ledger import QuotaLedger
from platform_core.scheduling.state.round_state import RoundState
from tests.core.scheduling.dropping import Rule, assert_noticed
from tests.core.scheduling.preemption import test_reservations_beside_stops as beside
from tests.core.scheduling.reservations import test_nodes as places
from tests.core.scheduling.reservations import test_reserved_quota as quota
from tests.simulation import test_bounded_waits as bounded
from tests.simulation import test_fair_histories as histories


def _deserving_first(self: Any, queue: Any) -> Any:
    return sorted(queue, key=lambda each: not self.is_entitled(each[1]))


RULES: dict[str, Rule] = {
    "a place is kept": (
        engine,
        "_reserve",
        lambda *_: True,
        histories.test_the_gang_at_the_head_starts_when_it_was_told,
    ),
    "a place is kept for whoever passes, too": (
        Reservations,
        "start",
        lambda self, place, runtime_ms: None,
        places.test_a_long_job_passes_where_it_does_not_touch_the_kept_place,
    ),
    "whoever runs beyond a kept place leaves it alone": (
        Reservations,
        "free_through",
        lambda self, runtime_ms: self._counts,
        places.test_a_short_job_passes_the_first_in_the_queue_and_a_long_one_does_not,
    ),
    "a place that is kept later leaves the earlier ones alone": (
        Reservations,
        "_least",
        lambda self, counts, from_ms, runtime_ms: counts,
        places.test_a_later_place_does_not_reach_into_an_earlier_one,
    ),
    "quota is kept with a place": (
        QuotaLedger,
        "reserve",
        lambda self, job, start_ms: None,
        quota.test_a_place_is_kept_with_the_quota_it_will_need,
    ),
    "a place is kept from when there is quota": (
        QuotaLedger,
        "earliest_ms",
        lambda self, job, from_ms: from_ms,
        quota.test_the_first_of_all_has_a_place_kept_too_from_when_there_is_room,
    ),
    "a maximum is not used up by smaller jobs of the team": (
        QuotaLedger,
        "reserve",
        lambda self, job, start_ms: None,
        bounded.test_smaller_jobs_of_its_own_team_do_not_use_up_for_ever_what_its_maximum_has,
    ),
    "nor where no place is kept yet": (
        RoundState,
        "reserve_quota",
        lambda self, job: None,
        quota.test_behind_another_only_the_quota_is_kept_so_that_whoever_has_quota_has_the_places,
    ),
    "nor by those within the guarantee": (
        engine,
        "overtaken_by",
        lambda queue, state, owners: {},
        quota.test_whoever_is_within_the_guarantee_does_not_use_up_what_an_earlier_one_of_the_team_waits_for,
    ),
    "nor what cannot start keeps any": (
        RoundState,
        "could_start",
        lambda self, job: True,
        quota.test_nothing_is_kept_for_what_can_never_start,
    ),
    "nobody grows into it": (
        QuotaLedger,
        "reservations_of",
        lambda self, team, gpu_type: (),
        quota.test_a_job_of_the_team_does_not_grow_into_what_is_kept,
    ),
    "where only the more urgent are stopped nobody passes by entitled slots": (
        eviction.Eviction,
        "ranked",
        _deserving_first,
        beside.test_nor_the_first_that_deserves_none_since_others_run_who_may_not_be_stopped,
    ),
    "there a place is kept at once": (
        eviction,
        "ORDERS",
        {name: replace(each, only_more_urgent=False) for name, each in ORDERS.items()},
        beside.test_whoever_deserves_slots_does_not_pass_the_first_that_deserves_them_too_where_that_delays_it,
    ),
    "no room is made on a kept place": (
        Reservations,
        "reserved_within",
        lambda self, runtime_ms: 0,
        beside.test_a_round_that_keeps_a_place_for_an_owner_makes_no_room_on_it,
    ),
    "nor where that would delay it": (
        Reservations,
        "reserved_within",
        lambda self, runtime_ms: 0,
        beside.test_nobody_is_stopped_where_that_would_delay_the_place_of_an_earlier_one,
    ),
    "places count with whoever gets the room": (
        Reservations,
        "replace",
        lambda self, stopped, place, runtime_ms: None,
        beside.test_a_place_kept_after_a_stop_counts_with_whoever_gets_the_room,
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_dropping_a_rule_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_noticed(RULES[rule], monkeypatch)
