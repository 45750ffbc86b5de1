"""What stack dumps say of a job that hangs. The dumps come from a gloo job of torchrun whose rank 1 sleeps."""

from pathlib import Path

import pytest

from platform_core.jobs.stacks import Activity, RankStack, diagnose, moved, parse, summary

DUMPS = Path(__file__).parent / "stack_dumps"


def dumped(job: str) -> list[RankStack]:
    return [summary(rank, parse((DUMPS / f"{job}-rank-{rank}.txt").read_text()), step=3) for rank in range(3)]


@pytest.mark.parametrize(
    ("job", "collective"), [("allreduce", "all_reduce"), ("barrier", "barrier"), ("ddp", "backward")]
)
def test_the_rank_outside_the_collective_is_named(job: str, collective: str) -> None:
    verdict = diagnose(dumped(job))
    assert (verdict.stuck, verdict.collective, verdict.works) == ((1,), collective, ())
    assert verdict.sentence == (
        f"rank 1 is stuck in read_batch (train.py:11); ranks 0 and 2 wait in {collective}"
    )


def test_a_rank_in_another_collective_than_the_others_is_named() -> None:
    ranks = [*dumped("allreduce")[::2], RankStack(1, Activity.COLLECTIVE, "barrier", "train.py:9", step=3)]
    verdict = diagnose(ranks)
    assert verdict.stuck == (1,)
    assert "rank 1 waits in barrier (train.py:9); ranks 0 and 2 wait in all_reduce" in verdict.sentence


def test_a_rank_that_is_a_step_behind_in_the_same_collective_is_named() -> None:
    ranks = [RankStack(rank, Activity.COLLECTIVE, "all_reduce", step=8 - (rank == 2)) for rank in range(4)]
    assert diagnose(ranks).stuck == (2,)


def test_all_wait_in_one_collective_at_one_step_and_nobody_is_blamed_alone() -> None:
    verdict = diagnose([RankStack(rank, Activity.COLLECTIVE, "all_reduce", step=8) for rank in range(6)])
    assert verdict.stuck == (0, 1, 2, 3, 4, 5)
    assert verdict.sentence == "no rank is ahead of the others; 6 ranks wait in all_reduce"


def test_a_rank_whose_process_was_stopped_does_not_answer() -> None:
    ranks = [summary(0, (), state="stopped"), *dumped("barrier")[2:]]
    verdict = diagnose(ranks)
    assert verdict.stuck == (0,)
    assert verdict.sentence == "rank 0 does not answer (stopped); rank 2 waits in barrier"


def test_a_rank_that_compiles_or_evaluates_while_others_wait_is_no_hang() -> None:
    compiling = summary(0, parse(
        'Current thread 0x01 (most recent call first):\n'
        '  File "/opt/venv/lib/python3.11/site-packages/triton/compiler/compiler.py", line 9 in compile\n'
        '  File "/opt/venv/lib/python3.11/site-packages/torch/_inductor/graph.py", line 2 in codegen\n'
        '  File "/srv/train.py", line 3 in step\n'
    ))  # fmt: skip
    assert compiling.activity is Activity.COMPILE
    assert diagnose([compiling, *dumped("barrier")[2:]]).works == (0,)
    evaluating = RankStack(0, Activity.SCRIPT, "evaluate", "train.py:60", moving=True)
    verdict = diagnose([evaluating, *dumped("barrier")[2:]])
    assert (verdict.works, verdict.stuck) == ((0,), ())
    assert verdict.sentence == "rank 0 still works; rank 2 waits in barrier"


def test_only_stacks_that_were_given_twice_and_differ_have_moved() -> None:
    first = parse((DUMPS / "barrier-rank-0.txt").read_text())
    second = parse((DUMPS / "barrier-rank-1.txt").read_text())
    assert moved(first, second)
    assert not moved(first, first)
    assert not moved(first, ())


def test_the_main_thread_is_the_last_of_faulthandler_and_the_named_one_of_py_spy() -> None:
    threads = (
        'Thread 0x00007f01 (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 5 in wait\n\n'
        'Current thread 0x00007f02 (most recent call first):\n  File "/srv/train.py", line 7 in load\n'
    )
    assert [frame.function for frame in parse(threads)] == ["load"]
    spied = (
        'Process 8: python train.py\nPython v3.11.2 (/usr/bin/python3.11)\n\n'
        'Thread 8 (idle): "MainThread"\n    read (train.py:4)\n    <module> (train.py:9)\n'
        'Thread 9 (active): "loader"\n    work (loader.py:1)\n'
    )  # fmt: skip
    assert [(frame.function, frame.line) for frame in parse(spied)] == [("read", 4), ("<module>", 9)]


def test_the_last_of_several_dumps_in_a_file_counts() -> None:
    text = "".join((DUMPS / f"barrier-rank-{rank}.txt").read_text() for rank in (0, 1))
    assert parse(text)[0].function == "read_batch"


@pytest.mark.parametrize(
    "text", ["", "no dump at all", "Current thread 0x01 (most recent call first):\n", "\0" * 99]
)
def test_text_without_a_stack_is_a_rank_that_gave_none(text: str) -> None:
    assert summary(4, parse(text)).activity is Activity.SILENT


def test_nobody_gave_a_stack() -> None:
    assert diagnose([]).sentence == "no rank gave a stack"
