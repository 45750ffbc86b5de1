"""How an attempt ended, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from agent.attempts.verdict import RankEnd, Verdict, decide
from agent.launchers.contract import Ended
from platform_core.jobs.ends import EndReason

TORCHRUN_REPORT = """
E1121 04:10:03.222 elastic/multiprocessing/api.py:984] failed (exitcode: 1) local_rank: 0 (pid: 11) of binary: python
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
trainmaster.rank FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-21_04:10:03
  host      : n1
  rank      : 2 (local_rank: 0)
  exitcode  : 1 (pid: 11)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_04:10:02
  host      : n1
  rank      : 3 (local_rank: 1)
  exitcode  : -9 (pid: 12)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 12
============================================================
"""


def verdict(
    ended: Ended,
    ranks: Mapping[int, RankEnd] | None = None,
    expected: int = 2,
    launcher_log: str = "",
    logs: Mapping[int, str] | None = None,
) -> Verdict:
    return decide(ended, ranks or {}, expected, launcher_log, logs or {})


def test_a_clean_end_needs_no_words() -> None:
    assert verdict(Ended(0)) == Verdict(0, "", EndReason.SUCCEEDED)


def test_the_root_cause_is_named_and_not_the_rank_that_failed_after_it() -> None:
    ended = verdict(
        Ended(1), {2: RankEnd(1, "RuntimeError: connection closed by peer")}, launcher_log=TORCHRUN_REPORT
    )
    assert ended == Verdict(137, "Rank 3 was killed by SIGKILL.", EndReason.KILLED)


def test_the_ranks_own_word_is_quoted() -> None:
    ends = {0: RankEnd(0), 1: RankEnd(1, "ValueError: the loss is not a number")}
    assert (
        verdict(Ended(1), ends).reason
        == "Rank 1 ended with exit code 1: ValueError: the loss is not a number."
    )


def test_a_custom_command_has_its_last_word_quoted_if_it_is_an_error() -> None:
    told = verdict(Ended(1), expected=0, logs={0: "KeyError: 'lr'"})
    assert told.reason == "Its command ended with exit code 1: KeyError: 'lr'."
    absent = verdict(Ended(2), expected=0, logs={0: "/opt/bin/python3.11: can't open file 'x.py'"})
    assert absent.reason == "Its command ended with exit code 2: /opt/bin/python3.11: can't open file 'x.py'."
    quiet = verdict(Ended(2), expected=0, logs={0: "epoch 3 of 9"})
    assert quiet.reason == "Its command ended with exit code 2."


def test_a_killed_command_names_the_signal() -> None:
    assert verdict(Ended(139), expected=0).reason == "Its command was killed by SIGSEGV."


def test_too_much_memory_is_said_with_the_number() -> None:
    ended = verdict(Ended(137, memory_limit_bytes=8 << 30), launcher_log=TORCHRUN_REPORT)
    told = "It used more memory than its limit on this node, 8 GiB, and was ended."
    assert ended == Verdict(137, told, EndReason.OUT_OF_MEMORY_HOST)


def test_a_stop_counts_as_clean_when_every_rank_left_in_peace() -> None:
    peace = {0: RankEnd(0), 1: RankEnd(0)}
    assert verdict(Ended(1, stopped=True), peace).exit_code == 0
    assert verdict(Ended(1, stopped=True), {0: RankEnd(0)}).exit_code == 1
    assert verdict(Ended(143, stopped=True), {}, expected=0).exit_code == 143


def test_a_kill_after_the_grace_is_said() -> None:
    ended = verdict(Ended(137, stopped=True, killed_after_grace=True))
    told = "It was asked to stop, did not end within its grace, and was killed."
    assert ended == Verdict(137, told, EndReason.STOPPED)


def test_trouble_of_the_launcher_is_the_platforms_fault_and_a_missing_program_the_users() -> None:
    gone = verdict(Ended(137, vanished=True, trouble="it is gone"))
    assert gone == Verdict(137, "It is gone.", EndReason.LAUNCHER)
    missing = verdict(Ended(127, trouble='"trian" could not be started: No such file or directory.'))
    assert missing == Verdict(127, '"trian" could not be started: No such file or directory.')
