"""What would be moved next for a gang, what that costs, or why nothing moves."""

from dataclasses import replace

from hypothesis import given

from platform_core.cluster.snapshot import RunningJob, Snapshot
from platform_core.scheduling.engine import plan
from platform_core.scheduling.forecast.next_migration import NextMigration, NoMigration, next_migration
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

HOUR_MS = 60 * MINUTE_MS
IN_FORCE = Policy(reservations=1)
MOVING = Policy(reservations=1, evicts=True, migrates=True)


def old(name: str, where: dict[str, range], *, hours: int = 2) -> RunningJob:
    """It has run for long and saves when it is told to stop."""
    job = running(name, where, started_ms=NOW_MS - hours * HOUR_MS, expected_end_ms=NOW_MS + 9 * HOUR_MS)
    return replace(job, saves_when_stopped=True, submitted_ms=NOW_MS - 9 * HOUR_MS)


def in_pieces(*held: RunningJob, gang_hours: int = 24) -> Snapshot:
    """Two nodes of 8, half of each free, and a gang of 8 that waits."""
    gang = pending("gang", 8, max_runtime_ms=gang_hours * HOUR_MS)
    return snapshot([node("a", free=4), node("b", free=4)], [gang], held=held)


def test_the_smaller_job_in_the_way_is_moved_and_the_gain_is_told() -> None:
    found = next_migration(in_pieces(old("one", {"a": range(4)}), old("two", {"b": range(4)})), IN_FORCE)
    assert isinstance(found, NextMigration)
    assert (found.job.id, len(found.stops), found.pays) == ("job-gang", 1, True)
    assert found.cost_gpu_ms == 4 * MINUTE_MS  # the resume of four GPUs
    assert found.gain_gpu_ms == 8 * 24 * HOUR_MS


def test_it_is_what_the_scheduler_itself_does_when_it_may_move() -> None:
    situation = in_pieces(old("one", {"a": range(4)}), old("two", {"b": range(4)}))
    found = next_migration(situation, IN_FORCE)
    assert isinstance(found, NextMigration)
    made = plan(situation, MOVING)
    assert (found.stops, found.reserved) == (made.stops, made.node_reservations[1:])


def test_where_the_moved_one_goes_on_is_told() -> None:
    one = old("one", {"a": range(4)})
    known = replace(one, asks=pending("one", 4))
    found = next_migration(
        in_pieces(known, replace(old("two", {"b": range(4)}), preemptible=False)), IN_FORCE
    )
    assert isinstance(found, NextMigration)
    assert [(room.job_id, room.nodes) for room in found.reserved] == [("job-one", ("node-b",))]


def test_a_move_that_loses_more_than_it_wins_is_told_with_its_cost() -> None:
    never_saved = replace(old("one", {"a": range(4)}, hours=8), saves_when_stopped=False)
    other = replace(old("two", {"b": range(4)}, hours=8), preemptible=False)
    situation = in_pieces(never_saved, other, gang_hours=1)
    found = next_migration(situation, IN_FORCE)
    assert isinstance(found, NextMigration)
    assert (found.pays, [stop.job_id for stop in found.stops]) == (False, ["job-one"])
    assert found.cost_gpu_ms == 4 * (8 * HOUR_MS + MINUTE_MS)
    assert found.gain_gpu_ms == 8 * HOUR_MS
    assert plan(situation, MOVING).stops == ()


def told(situation: Snapshot) -> str:
    found = next_migration(situation, IN_FORCE)
    assert isinstance(found, NoMigration)
    return found.sentence


def test_nothing_moves_while_nobody_waits() -> None:
    assert told(snapshot([node("a")], [])) == "No job waits, so no job needs to migrate."


def test_nothing_moves_where_too_little_is_free_anywhere() -> None:
    full = snapshot([node("a", free=2)], [pending("gang", 8)], held=[old("one", {"a": range(6)})])
    assert told(full) == "The waiting jobs need more free slots, or slots of another type."


def test_nothing_moves_for_a_job_that_no_node_could_ever_take() -> None:
    hungry = pending("hungry", 2, cpus_per_gpu=1_000)
    assert "more free slots" in told(snapshot([node("a", free=4)], [hungry]))


def test_nothing_moves_where_all_that_is_in_the_way_has_just_begun() -> None:
    young = old("one", {"a": range(4)}, hours=0), old("two", {"b": range(4)}, hours=0)
    assert "8 GPUs of a100 are free on several nodes, but no job there may migrate" in told(in_pieces(*young))


def test_nothing_moves_for_a_team_that_is_at_its_maximum() -> None:
    held = old("one", {"a": range(4)}), old("two", {"b": range(4)})
    situation = replace(in_pieces(*held), teams=(team(maximum=8, used=8),))
    assert told(situation) == "1 job would fit the free slots but exceed the quota of its team."


@given(snapshots())
def test_a_move_that_pays_is_always_one_that_the_scheduler_makes(situation: Snapshot) -> None:
    found = next_migration(situation, IN_FORCE)
    made = plan(situation, MOVING).stops
    if isinstance(found, NextMigration) and found.pays:
        assert set(found.stops) <= set(made)
    else:
        assert not [stop for stop in made if stop.kind == "moved"]
