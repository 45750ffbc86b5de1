from __future__ import annotations

from dataclasses import replace

from platform_core.cluster.invariants import (
    AttemptHolding,
    Books,
    LedgerEntry,
    SlotHeld,
    check,
)

GOOD = Books(
    slots=(
        SlotHeld("node-a", 0, "att-1"),
        SlotHeld("node-a", 1, "att-1"),
        SlotHeld("node-b", 0, "att-1"),
        SlotHeld("node-b", 1, ""),
    ),
    attempts=(AttemptHolding("att-1", "job-1", (("node-a", (0, 1)), ("node-b", (0,)))),),
    ledger=(
        LedgerEntry("att-1", "node-a", 2, 1_000, None),
        LedgerEntry("att-1", "node-b", 1, 1_000, None),
        LedgerEntry("att-0", "node-b", 2, 100, 900),
    ),
)


def codes(books: Books) -> dict[str, str]:
    return {violation.code: violation.sentence for violation in check(books)}


def test_books_in_order_have_no_violation():
    assert check(GOOD) == ()
    assert check(Books((), (), ())) == ()


def test_a_slot_that_two_attempts_run_on_is_found():
    other = AttemptHolding("att-2", "job-2", (("node-b", (0,)),))
    assert codes(replace(GOOD, attempts=(*GOOD.attempts, other)))["slot_twice"] == (
        "slot 0 of node-b is assigned to att-1 and att-2"
    )


def test_a_slot_that_is_recorded_twice_is_found():
    assert "slot_twice" in codes(replace(GOOD, slots=(*GOOD.slots, SlotHeld("node-b", 1, ""))))


def test_a_finished_job_that_still_holds_a_slot_is_found():
    slots = (*GOOD.slots[:3], SlotHeld("node-b", 1, "att-0"))
    assert codes(replace(GOOD, slots=slots)) == {
        "held_by_ended": "slot 1 of node-b is held by att-0, which does not run there"
    }


def test_an_attempt_that_runs_on_a_slot_it_does_not_hold_is_found():
    slots = (*GOOD.slots[:2], SlotHeld("node-b", 0, ""), GOOD.slots[3])
    assert codes(replace(GOOD, slots=slots)) == {
        "not_held": "slot 0 of node-b is held by nobody, but att-1 runs there"
    }


def test_an_attempt_on_a_slot_that_does_not_exist_is_found():
    assert codes(replace(GOOD, slots=GOOD.slots[:2] + GOOD.slots[3:])) == {
        "slot_unknown": "att-1 runs on slot 0 of node-b, which does not exist"
    }


def test_usage_that_is_not_the_sum_of_what_runs_is_found():
    ledger = (replace(GOOD.ledger[0], slots=1), *GOOD.ledger[1:])
    told = "att-1 holds 2 slots on node-a, but the ledger has 1 of them open"
    assert codes(replace(GOOD, ledger=ledger)) == {"usage_differs": told}
    assert "usage_differs" in codes(replace(GOOD, ledger=GOOD.ledger[1:]))
    assert "usage_differs" in codes(replace(GOOD, attempts=()))


def test_an_entry_that_ends_before_it_starts_or_comes_twice_is_found():
    assert "ledger_negative" in codes(
        replace(GOOD, ledger=(*GOOD.ledger[:2], replace(GOOD.ledger[2], ended_ms=50)))
    )
    assert "ledger_twice" in codes(replace(GOOD, ledger=(*GOOD.ledger, GOOD.ledger[2])))
