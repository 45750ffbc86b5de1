"""What the scheduler would move next so that a gang gets whole nodes, or why nothing is worth moving.

Asked of the round itself: `decide` with moves allowed, whatever the policy in force says of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.decisions import Room, Stop, StopKind
from platform_core.scheduling.engine import Decisions, decide
from platform_core.scheduling.estimates import remaining_ms
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.preemption.eviction import LEAST_RUN_BEFORE_A_MOVE_MS
from platform_core.scheduling.wording import amount
from platform_core.units import format_duration_ms, plural


@dataclass(frozen=True, slots=True)
class NextMove:
    job: PendingJob  # for which room is made
    stops: tuple[Stop, ...]  # whom it takes
    rooms: tuple[Room, ...]  # where those go on that are moved, as far as slots are free for them now
    cost_gpu_ms: int
    gain_gpu_ms: int  # GPU time that the job still wants
    pays: bool  # is the gain so many times the cost that the scheduler does it?


@dataclass(frozen=True, slots=True)
class NoMove:
    sentence: str


def next_move(snapshot: Snapshot, policy: Policy) -> NextMove | NoMove:
    decided = decide(snapshot, replace(policy, evicts=True, moves=True))
    wanted = {job.id: job for job in snapshot.pending}
    moved = next((stop for stop in decided.stops if stop.kind is StopKind.MOVED), None)
    if moved is not None:
        stops = [stop for stop in decided.stops if stop.for_job == moved.for_job]
        stopped = {stop.job_id for stop in stops}
        rooms = tuple(room for room in decided.board.rooms if room.job_id in stopped)
        return _weighed(wanted[moved.for_job], stops, rooms, pays=True)
    too_dear = decided.board.too_dear
    if too_dear:
        return _weighed(wanted[too_dear[0].for_job], too_dear, (), pays=False)
    return NoMove(_why_none(decided))


def _weighed(job: PendingJob, stops: list[Stop], rooms: tuple[Room, ...], *, pays: bool) -> NextMove:
    cost = sum(stop.lost_gpu_ms for stop in stops)
    return NextMove(job, tuple(stops), rooms, cost, remaining_ms(job) * job.num_gpus, pays)


def _why_none(decided: Decisions) -> str:
    if not decided.waiting:
        return "Nobody waits, so nothing needs to move."
    board = decided.board
    free = {
        gpu_type: board.at_start.total(board.index.of_type(gpu_type) & board.site.ready)
        for gpu_type in board.index.gpu_types
    }
    for _, placement in decided.started:
        for seat in placement.members:
            free[board.index.nodes[board.index.position_of[seat.node]].gpu_type] -= len(seat.slots)
    in_pieces = [
        job
        for job in decided.waiting
        if job.num_gpus <= free.get(job.gpu_type, 0) and board.site.splits(board.site.demand(job))
    ]
    if not in_pieces:
        return "Whoever waits needs more or other slots than are free, however they lie."
    if all(not board.in_quota(job) for job in in_pieces):
        return f"{plural(len(in_pieces), 'job')} would fit into what is free, but not into the team's quota."
    job = in_pieces[0]
    least = format_duration_ms(LEAST_RUN_BEFORE_A_MOVE_MS)
    return (
        f"{amount(job.num_gpus, job.gpu_type)} are free in pieces, but nothing there may be moved: only preemptible "
        f"jobs that are smaller, no more urgent and have run for {least} are."
    )
