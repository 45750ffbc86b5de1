"""The plan of a rollout, and which nodes are its canaries."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from platform_core.distribution.planning.routes import Place
from platform_core.errors import TrainmasterError

COMMAND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LONGEST_HOLD_MS = 7 * 24 * 3_600_000
LONGEST_COMMAND_SECONDS = 3_600
DEFAULT_COMMAND_SECONDS = 60
DEFAULT_CHECK_SECONDS = 30
MOST_FAILURES = 100


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """`hold_ms` None: the canaries are held until someone promotes; 0: their health check alone decides.

    `hook` runs on a node after each switch, `health_check` on the canaries: names of commands that the node's operator
    installed. The check repeats every `check_every_ms` during the hold; 0: only at its start and end. After
    `roll_back_after` failed checks of one canary in a row all nodes roll back; 0: the first failed check stops the
    rollout as it is.
    """

    canaries: int = 0
    hold_ms: int | None = 0
    health_check: str = ""
    check_every_ms: int = DEFAULT_CHECK_SECONDS * 1000
    roll_back_after: int = 0
    hook: str = ""
    wait_for_all: bool = False  # nobody switches before every node has a verified copy
    command_seconds: int = DEFAULT_COMMAND_SECONDS

    def __post_init__(self) -> None:
        if self.canaries < 0:
            raise _invalid("canary", f"there cannot be {self.canaries} canaries")
        if not self.canaries and (self.health_check or self.hold_ms != 0):
            raise _invalid(
                "canary", "a hold and a health check are for canaries; say how many there shall be"
            )
        if self.hold_ms is not None and not 0 <= self.hold_ms <= LONGEST_HOLD_MS:
            raise _invalid(
                "hold_seconds", f"it is {self.hold_ms // 1000}; 0 to {LONGEST_HOLD_MS // 1000} can be held"
            )
        for name, command in (("hook", self.hook), ("health_check", self.health_check)):
            if command and not COMMAND.fullmatch(command):
                why = f'"{command}" is no name of a command: letters, digits, dots, dashes, at most 100'
                raise _invalid(name, why)
        self._check_watch()
        if not 1 <= self.command_seconds <= LONGEST_COMMAND_SECONDS:
            raise _invalid(
                "command_seconds", f"it is {self.command_seconds}; it must be 1 to {LONGEST_COMMAND_SECONDS}"
            )

    def _check_watch(self) -> None:
        every = self.check_every_ms
        if every and not 1000 <= every <= LONGEST_HOLD_MS:
            why = f"it is {every / 1000:g}; it must be 1 to {LONGEST_HOLD_MS // 1000}, or 0: not repeated"
            raise _invalid("check_every_seconds", why)
        if not 0 <= self.roll_back_after <= MOST_FAILURES:
            raise _invalid(
                "roll_back_after", f"it is {self.roll_back_after}; it must be 0 to {MOST_FAILURES}"
            )
        if self.roll_back_after and not self.health_check:
            raise _invalid("roll_back_after", "there is no health check that could fail; name one")
        if self.roll_back_after > 1 and not every:
            why = f"{self.roll_back_after} failures in a row take checks that are repeated; say how often"
            raise _invalid("roll_back_after", why)


def canary_count(wanted: str, nodes: int) -> int:
    """`3` or `10%` of the nodes; a percentage is rounded up, so that it is at least one."""
    text = wanted.replace(" ", "")
    number = text.removesuffix("%")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise _invalid(
            "canary", f'"{wanted}" is neither a number of nodes nor a percentage, such as 3 or 10%'
        )
    if text.endswith("%"):
        if int(number) > 100:
            raise _invalid("canary", f"{wanted} of the nodes is more than all")
        return -(-nodes * int(number) // 100)
    if int(number) > nodes:
        raise _invalid("canary", f"{number} canaries of {nodes} nodes; there are not so many")
    return int(number)


def spread(places: Iterable[Place]) -> list[str]:
    """The order in which nodes become canaries: one of each rack of each block in turn, then the second of each."""
    racks: dict[tuple[str, str], list[str]] = defaultdict(list)
    for place in places:
        racks[place.block, place.rack].append(place.node)
    turns: dict[str, int] = defaultdict(int)
    order = []
    for block, rack in sorted(racks):
        turn = turns[block]
        turns[block] += 1
        order += [(depth, turn, block, node) for depth, node in enumerate(sorted(racks[block, rack]))]
    return [node for *_, node in sorted(order)]


def _invalid(what: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=what, why=why)
