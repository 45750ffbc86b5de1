"""How fast it can be at all: no strategy is quicker than these, whatever it does.

Sizes are bytes, rates bytes per second, times milliseconds (rounded down: a bound must not promise too much).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rates:
    """What one full-duplex port, or the uplink of one rack, can send and receive at the same time."""

    up: int
    down: int


@dataclass(frozen=True, slots=True)
class Rack:
    """`uplink` joins the rack to the rest; None when it never limits."""

    workers: tuple[Rates, ...]
    uplink: Rates | None = None


def rounds(pieces: int, workers: int) -> int:
    """M - 1 + ceil(log2(N + 1)) rounds for M equal pieces from one source to N workers.

    Conditions: in a round each node, the source too, sends at most one piece and receives at most one.
    The last piece leaves the source in round M at the earliest, after which the nodes that have it can at most double
    each round. Attained by hypercube schedules for N + 1 a power of two, by others for every N.
    Bar-Noy and Kipnis, "Designing broadcasting algorithms in the postal model", Math. Systems Theory 27 (1994);
    Mundinger, Weber and Weiss, "Optimal scheduling of peer-to-peer file dissemination", J. Scheduling 11 (2008).
    """
    if pieces <= 0 or workers <= 0:
        return 0
    return pieces - 1 + workers.bit_length()  # ceil(log2(N + 1)) for whole N


def rounds_ms(total_bytes: int, piece_size: int, workers: int, rate: int) -> int:
    """The same as a time, for equal full-duplex ports; the last piece counts with its own, smaller size."""
    if total_bytes <= 0 or workers <= 0:
        return 0
    pieces = -(-total_bytes // piece_size)
    last = total_bytes - (pieces - 1) * piece_size
    # Only whole pieces are forwarded, so the smallest piece doubles at its own pace at best.
    doublings = rounds(pieces, workers) - pieces
    return (total_bytes + doublings * min(last, piece_size)) * 1000 // rate


def fluid_ms(total_bytes: int, source_up: int, workers: Sequence[Rates]) -> int:
    """max(F/u_s, F/d_min, N F/(u_s + sum u_i)): each byte leaves the source once, enters the slowest worker, and N
    copies of it are sent by somebody.

    Conditions: unequal rates, infinitely small pieces, no limit inside the network. Attained by fluid strategies,
    and approached as pieces shrink. Kumar and Ross, "Peer-assisted file distribution: the minimum distribution
    time", IEEE HOTWEB (2006).
    """
    if total_bytes <= 0 or not workers:
        return 0
    together = source_up + sum(worker.up for worker in workers)
    return max(
        _ms(total_bytes, source_up),
        _ms(total_bytes, min(worker.down for worker in workers)),
        _ms(len(workers) * total_bytes, together),
    )


def rack_ms(total_bytes: int, source_up: int, racks: Sequence[Rack]) -> int:
    """The fluid bound for the workers, for the racks as if each were one worker, and inside each rack.

    Conditions: the source stands outside all racks. A rack takes in one copy at the pace of its uplink; all racks
    together are fed by the source and by each other's uplinks; the workers of one rack share what enters and what
    they send. Each is a cut of the network, so the largest still bounds every strategy.
    """
    full = [rack for rack in racks if rack.workers]
    workers = [worker for rack in full for worker in rack.workers]
    bounds = [fluid_ms(total_bytes, source_up, workers)]
    uplinks = [rack.uplink for rack in full if rack.uplink is not None]
    if uplinks and len(uplinks) == len(full):
        bounds.append(fluid_ms(total_bytes, source_up, uplinks))
    inside = (
        fluid_ms(total_bytes, rack.uplink.down, rack.workers) for rack in full if rack.uplink is not None
    )
    return max(*bounds, 0, *inside)


def _ms(size: int, rate: int) -> int:
    if rate <= 0:
        raise ValueError(f"a rate is {rate} bytes per second; bytes would never arrive")
    return size * 1000 // rate
