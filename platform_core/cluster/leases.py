"""How long a node may run what is placed on it without word from the platform, and when that has surely ended.

The node counts from the moment it sent the newest heartbeat that was acknowledged; the platform from the moment it
first read that this heartbeat had been recorded, which is later. Both clocks count since boot, suspended time too, and
nobody can set them. Each may run fast or slow by up to DRIFT_PER_MILLE.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

DRIFT_PER_MILLE = 10
_LEASE_QUARTERS = (
    3  # of the silence after which a node is lost; the rest covers drift, and SIGKILL on a busy host
)
_WORK_FIFTHS = 4  # of the lease, until SIGTERM; the rest is for saving


def lease_ms(lost_ms: int) -> int:
    """The length of the lease of a node that counts as lost after this silence."""
    return lost_ms * _LEASE_QUARTERS // 4


def work_ms(length_ms: int) -> int:
    """How much of a lease passes until what runs under it is asked to save and end."""
    return length_ms * _WORK_FIFTHS // 5


def time_to_kill_ms(lost_ms: int) -> int:
    """What is left between the end of the lease and the loss of the node, by the worst of all clocks."""
    slow, fast = 1000 - DRIFT_PER_MILLE, 1000 + DRIFT_PER_MILLE
    return lost_ms * 1000 // fast - lease_ms(lost_ms) * 1000 // slow


@dataclass(frozen=True, slots=True)
class Lease:
    """The node's side. All times are of its clock."""

    sent_ms: int  # when the newest acknowledged heartbeat was sent
    since_ms: int  # when the unbroken run of acknowledgements began
    length_ms: int

    def left_ms(self, now_ms: int) -> int:
        return max(0, self.sent_ms + self.length_ms - now_ms)


NO_LEASE = Lease(0, 0, 0)


def acknowledge(lease: Lease, sent_ms: int, now_ms: int, length_ms: int) -> Lease:
    """The lease once an acknowledgement of the heartbeat sent at `sent_ms` has arrived.

    A lease that had run out begins anew: nothing of before may go on under it.
    """
    if not lease.left_ms(now_ms):
        lease = replace(lease, since_ms=now_ms, sent_ms=0)
    if sent_ms < lease.sent_ms:
        return lease
    return replace(lease, sent_ms=sent_ms, length_ms=length_ms)


def covers(lease: Lease, began_ms: int, now_ms: int) -> bool:
    """Whether what was ordered at `began_ms` may run now: the lease has held ever since."""
    return lease.since_ms <= began_ms and lease.left_ms(now_ms) > 0


@dataclass(frozen=True, slots=True)
class Sighting:
    """The platform's side: what was last recorded of a node, and since when that is known. By the observer's clock."""

    token: str  # another with each record
    first_ms: int
    ends_ms: int  # by then every lease that was granted so far has ended
    heard: bool = False  # it took the place of another token; what is seen for the first time may be old


def sight(known: Sighting | None, token: str, lost_ms: int, read_ms: int) -> Sighting:
    """`read_ms` is a moment after the token was read; `lost_ms` what the gateway that recorded it goes by."""
    if known is not None and known.token == token:
        return known
    earlier_ms = known.ends_ms if known is not None else 0
    return Sighting(token, read_ms, max(earlier_ms, read_ms + lost_ms), heard=known is not None)


def quiet_ms(sighting: Sighting, before_ms: int) -> int:
    """How long nothing new has been recorded; `before_ms` is a moment before the newest token was read."""
    return max(0, before_ms - sighting.first_ms)


def has_ended(sighting: Sighting, before_ms: int) -> bool:
    """Whether no lease of the node can hold any more."""
    return before_ms >= sighting.ends_ms
