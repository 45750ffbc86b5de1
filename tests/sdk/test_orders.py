"""Orders to a running script: save now, another interval, stop by a deadline."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

from tests.sdk.conftest import Clock
from tests.sdk.scripts import attempt_folder, events
from tests.sdk.test_ranks import ranks
from trainmaster.agreement import Question
from trainmaster.run import Run

Make = Callable[..., Run]


def order(tmp_path: Path, **orders: object) -> None:
    new = tmp_path / "attempt" / "orders.new"
    new.write_text(json.dumps(orders))
    os.replace(new, tmp_path / "attempt" / "orders.json")


def test_an_order_to_save_is_followed_once(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node(interval_steps=100)
    assert not run.checkpoint_due(1, 10)
    order(tmp_path, save=2)
    assert [run.checkpoint_due(step, 10) for step in (2, 3)] == [True, False]
    order(tmp_path, save=3)
    assert [run.checkpoint_due(step, 10) for step in (4, 5, 100)] == [True, False, True]


def test_the_interval_of_the_orders_takes_the_place_of_the_jobs(
    on_a_node: Make, tmp_path: Path, clock: Clock
) -> None:
    run = on_a_node(interval_seconds=60)
    order(tmp_path, checkpoint_interval_ms=600_000)
    clock.ms += 60_000
    assert not run.checkpoint_due(1, 10)
    clock.ms += 540_000
    assert run.checkpoint_due(2, 10)


def test_a_stop_tells_how_much_time_is_left(on_a_node: Make, tmp_path: Path, clock: Clock) -> None:
    run = on_a_node()
    assert run.stop_deadline() is None
    order(tmp_path, stop={"at_ms": clock.ms, "deadline_ms": clock.ms + 30_000, "reason": "spot notice"})
    assert run.stop_deadline() == 30.0
    clock.ms += 40_000
    assert run.stop_deadline() == 0.0
    while not run.should_stop():
        pass


def test_orders_that_make_no_sense_change_nothing(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node()
    for text in ("", "{", "[]", '{"save": "x"}', '{"stop": 3}'):
        (tmp_path / "attempt" / "orders.json").write_text(text)
        assert not run.checkpoint_due(1, 10)
        assert run.stop_deadline() is None


def test_the_checkpoint_of_a_stop_is_marked(on_a_node: Make, tmp_path: Path, clock: Clock) -> None:
    run = on_a_node()
    run.save_checkpoint({}, 1, {}, blocking=True)
    order(tmp_path, stop={"at_ms": clock.ms, "deadline_ms": clock.ms + 60_000, "reason": ""})
    while not run.should_stop():
        pass
    saved = run.save_checkpoint({}, 2, {}, blocking=True)
    assert saved is not None
    said = events(tmp_path / "attempt" / "spool" / "rank-0.jsonl", "checkpoint")
    assert [(event["step"], event["emergency"]) for event in said] == [(1, False), (2, True)]
    assert json.loads((saved / "trainmaster.json").read_text())["emergency"] is True


def test_no_save_is_begun_that_the_deadline_would_cut_off(
    on_a_node: Make, tmp_path: Path, clock: Clock
) -> None:
    run = on_a_node()
    run.save_checkpoint({}, 1, {})
    order(tmp_path, stop={"at_ms": clock.ms, "deadline_ms": clock.ms, "reason": ""})
    while not run.should_stop():
        pass
    assert run.save_checkpoint({}, 2, {}) is None
    run.finish()
    assert [
        event["step"] for event in events(tmp_path / "attempt" / "spool" / "rank-0.jsonl", "checkpoint")
    ] == [1]


def test_a_question_waits_only_while_an_agreement_is_under_way() -> None:
    question = Question(lambda: 0, lambda reason: None)
    assert not question.ask()
    assert question.hold() == 1
    answers: list[bool] = []
    asker = threading.Thread(target=lambda: answers.extend(question.ask() for _ in range(3)))
    asker.start()
    question.answer(3)
    asker.join()
    assert answers == [False, True, False]


ORDERED = """
steps = []
for step in range(1, 2_000_000):
    if step == 5 and rank == 1:
        home = Path(os.environ["TRAINMASTER_DIR"])
        (home / "orders.new").write_text('{"save": 1}')
        os.replace(home / "orders.new", home / "orders.json")
    if trainmaster.checkpoint_due(step, every=10**9):
        steps.append(step)
        Path("stop.new").touch()
        if rank == 0:
            os.kill(os.getpid(), signal.SIGTERM)
    if trainmaster.should_stop():
        break
say(f"{steps} {step}")
"""


def test_all_ranks_save_and_stop_at_the_same_step_without_a_collective_in_each(tmp_path: Path) -> None:
    attempt = attempt_folder(tmp_path / "attempt")
    said = ranks(tmp_path, ORDERED, TRAINMASTER_DIR=attempt)
    assert said[0] == said[1]
    assert said[0][0].startswith("[")
    assert said[0][0] != "[] 1999999"
