"""The nodes of a history: whose slots are whose, who is heard from, and what silence and notices make of it.

What a node's state is, only the machine of `cluster.health` decides; the books are judged by `cluster.invariants`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from platform_core.cluster.health import (
    DEFAULT_LIMITS,
    DrainRequested,
    Emptied,
    HealthLimits,
    Heartbeat,
    LoseMembers,
    NodeEvent,
    NodeHealth,
    NodeState,
    ResumeRequested,
    Silence,
    advance,
)
from platform_core.cluster.invariants import AttemptHolding, Books, LedgerEntry, SlotHeld
from platform_core.cluster.snapshot import NodeView
from platform_core.simulation.workload import Departure
from platform_core.units import format_duration_ms

FREE = ""


class Nodes:
    def __init__(self, nodes: Iterable[NodeView], limits: HealthLimits = DEFAULT_LIMITS) -> None:
        self.views = {node.id: node for node in nodes}
        self.limits = limits
        # Nodes whose slots have changed hands since the books were last looked at.
        self.touched = set(self.views)
        # From the notice, or else the failure, until it is back.
        self.away: dict[str, Departure] = {}
        self._down: set[str] = set()
        self._health = {
            node.id: NodeHealth(node.id, node.state, 0, 0, node.state is NodeState.DRAINING)
            for node in self.views.values()
        }
        self._holders = {node.id: dict.fromkeys(node.free_slots, FREE) for node in self.views.values()}
        self._open: dict[str, dict[str, LedgerEntry]] = {node: {} for node in self.views}

    def all(self) -> tuple[NodeView, ...]:
        return tuple(self.views.values())

    def racks(self, nodes: Iterable[str]) -> int:
        """In how many racks these nodes stand."""
        return len({(self.views[node].block, self.views[node].rack) for node in nodes})

    def is_up(self, node: str) -> bool:
        return node not in self._down

    def take(self, node: str, slots: Sequence[int], attempt: str, now_ms: int) -> None:
        holders = self._holders[node]
        for slot in slots:
            if holders.get(slot) != FREE:
                raise RuntimeError(f"{attempt} was given slot {slot} of {node}, which is not free")
            holders[slot] = attempt
        self._open[node][attempt] = LedgerEntry(attempt, node, len(slots), now_ms, None)
        self._changed(node)

    def give_back(self, node: str, attempt: str) -> LedgerEntry:
        """Free the slots of a member; returns them as ledger entries."""
        holders = self._holders[node]
        for slot, holder in holders.items():
            if holder == attempt:
                holders[slot] = FREE
        self._changed(node)
        return self._open[node].pop(attempt)

    def _changed(self, node: str) -> None:
        free = tuple([slot for slot, holder in self._holders[node].items() if holder == FREE])
        self.views[node] = replace(self.views[node], free_slots=free)
        self.touched.add(node)

    def books(self, attempts: Iterable[AttemptHolding]) -> Books:
        """Check only nodes that changed: the others were checked before."""
        touched = sorted(self.touched)
        slots = [
            SlotHeld(node, slot, holder) for node in touched for slot, holder in self._holders[node].items()
        ]
        entries = [entry for node in touched for entry in self._open[node].values()]
        return Books(tuple(slots), tuple(attempts), tuple(entries))

    def notice(self, departure: Departure, now_ms: int) -> str:
        """Drain the node; returns the cause for the jobs that must leave."""
        self.away[departure.node] = departure
        cause = f"spot notice: it goes in {format_duration_ms(departure.notice_ms)}"
        self._advance(departure.node, DrainRequested(at_ms=now_ms, cause=cause))
        return f"{departure.node} is taken away: {cause}"

    def go(self, departure: Departure, now_ms: int) -> None:
        """The node sends no more heartbeats."""
        self.away[departure.node] = departure
        self._down.add(departure.node)
        self._health[departure.node] = replace(self._health[departure.node], last_seen_ms=now_ms)

    def come_back(self, node: str, now_ms: int) -> None:
        noticed = self.away.pop(node).notice_ms > 0
        self._down.discard(node)
        self._advance(node, Heartbeat(at_ms=now_ms))
        if noticed:
            self._advance(node, ResumeRequested(at_ms=now_ms, cause="it is back after its notice"))

    def sweep(self, now_ms: int) -> Iterator[str]:
        """Judge silent nodes; returns those whose members are lost."""
        for node in sorted(self.away):
            event: NodeEvent | None = None
            if node in self._down:
                event = Silence(now_ms=now_ms)
            elif not self._open[node]:
                event = Emptied(at_ms=now_ms)
            if event is not None and self._advance(node, event):
                yield node

    def _advance(self, node: str, event: NodeEvent) -> bool:
        """True if its members are lost."""
        step = advance(self._health[node], event, self.limits)
        self._health[node] = step.health
        if step.health.state is not self.views[node].state:
            self.views[node] = replace(self.views[node], state=step.health.state)
        return any(isinstance(effect, LoseMembers) for effect in step.effects)
