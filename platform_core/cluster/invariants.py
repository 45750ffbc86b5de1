"""What must hold for the cluster at every moment. Tests check it at their end, operators at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlotHeld:
    """One slot as the database has it; `attempt` is its only holder, '' when it is free."""

    node: str
    index: int
    attempt: str


@dataclass(frozen=True, slots=True)
class AttemptHolding:
    """An attempt that has not ended, with the slots of its members that have not ended."""

    attempt: str
    job: str
    members: tuple[tuple[str, tuple[int, ...]], ...]  # (node, slot indices)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    attempt: str
    node: str
    slots: int
    started_ms: int
    ended_ms: int | None


@dataclass(frozen=True, slots=True)
class Books:
    """Everything at one moment: read it in one transaction, or it will not agree with itself."""

    slots: tuple[SlotHeld, ...]
    attempts: tuple[AttemptHolding, ...]  # all that have not ended, and no others
    ledger: tuple[LedgerEntry, ...]


@dataclass(frozen=True, slots=True)
class Violation:
    code: str
    sentence: str


def check(books: Books) -> tuple[Violation, ...]:
    """All that does not hold; empty when all is well."""
    return (*_slots(books), *_holders(books), *_ledger(books))


def _slots(books: Books) -> Iterator[Violation]:
    """No slot is assigned twice, and each slot is a row once."""
    rows = Counter((slot.node, slot.index) for slot in books.slots)
    for (node, index), count in sorted(rows.items()):
        if count > 1:
            yield Violation("slot_twice", f"slot {index} of {node} is recorded {count} times")
    wanted: dict[tuple[str, int], list[str]] = {}
    for attempt in books.attempts:
        for node, indices in attempt.members:
            for index in indices:
                wanted.setdefault((node, index), []).append(attempt.attempt)
    for (node, index), attempts in sorted(wanted.items()):
        if (node, index) not in rows:
            yield Violation(
                "slot_unknown", f"{attempts[0]} runs on slot {index} of {node}, which does not exist"
            )
        if len(attempts) > 1:
            names = " and ".join(sorted(attempts))
            yield Violation("slot_twice", f"slot {index} of {node} is assigned to {names}")


def _holders(books: Books) -> Iterator[Violation]:
    """A slot is held by exactly the attempt that runs on it; what has ended holds nothing."""
    wanted = {
        (node, index): attempt.attempt
        for attempt in books.attempts
        for node, indices in attempt.members
        for index in indices
    }
    for slot in sorted(books.slots, key=lambda slot: (slot.node, slot.index)):
        runs = wanted.get((slot.node, slot.index), "")
        if slot.attempt and not runs:
            sentence = f"slot {slot.index} of {slot.node} is held by {slot.attempt}, which does not run there"
            yield Violation("held_by_ended", sentence)
        elif runs and slot.attempt != runs:
            holder = slot.attempt or "nobody"
            sentence = f"slot {slot.index} of {slot.node} is held by {holder}, but {runs} runs there"
            yield Violation("not_held", sentence)


def _ledger(books: Books) -> Iterator[Violation]:
    """Usage is the sum of what runs: one open entry for each living member, with its number of slots."""
    running = {
        (attempt.attempt, node): len(indices)
        for attempt in books.attempts
        for node, indices in attempt.members
    }
    opened: Counter[tuple[str, str]] = Counter()
    entries: Counter[tuple[str, str]] = Counter()
    for entry in books.ledger:
        key = (entry.attempt, entry.node)
        entries[key] += 1
        if entry.ended_ms is None:
            opened[key] += entry.slots
        elif entry.ended_ms < entry.started_ms:
            sentence = (
                f"the ledger has {entry.attempt} on {entry.node} end {entry.started_ms - entry.ended_ms} ms"
            )
            yield Violation("ledger_negative", f"{sentence} before it started")
    for (attempt, node), count in sorted(entries.items()):
        if count > 1:
            yield Violation("ledger_twice", f"the ledger has {count} entries for {attempt} on {node}")
    for attempt, node in sorted(opened.keys() | running.keys()):
        booked, held = opened[attempt, node], running.get((attempt, node), 0)
        if booked != held:
            sentence = f"{attempt} holds {held} slots on {node}, but the ledger has {booked} of them open"
            yield Violation("usage_differs", sentence)
