"""How an attempt ended, in one sentence and one exit code. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent.attempts.causes import Cause, cause_in, cause_of
from agent.launchers.contract import Ended
from platform_core.jobs.ends import EndReason
from platform_core.units import format_bytes, format_duration_ms

# torchrun's own report of a failed rank; the root cause is the last block.
_FAILED_RANK = re.compile(r"rank\s*: (\d+) \(local_rank: \d+\)\s*\n\s*exitcode\s*: (-?\d+)")
_EXCEPTION = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt|Exit|Warning)|Killed|Segmentation fault)\b.*"
    r"|^(?:\S*/)?(?:python[\d.]*|sh|bash|env|timeout): .*"  # what starts programs, and could not
)
_TRACEBACK = "Traceback (most recent call last)"
_LONGEST_QUOTE = 300
_LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class Verdict:
    exit_code: int
    reason: str
    end: EndReason = EndReason.SCRIPT_ERROR
    resume_damaged: bool = False  # the checkpoint to resume from is not what was saved


@dataclass(frozen=True, slots=True)
class RankEnd:
    """What `trainmaster.rank` left of itself; a killed rank leaves nothing."""

    exit_code: int
    error: str = ""


def decide(
    ended: Ended,
    ranks: Mapping[int, RankEnd],
    expected_ranks: int,
    launcher_log: str,
    logs: Mapping[int, str],
) -> Verdict:
    """Decides how an attempt ended. `logs` has the end of each rank's log; `expected_ranks` is 0 for a custom command.

    All of it comes from files that the job could write to, so the verdict is made to fit the message that carries it.
    """
    verdict = _by_cause(ended, ranks, expected_ranks, launcher_log, logs)
    code = verdict.exit_code if 0 <= verdict.exit_code <= 255 else 1
    reason = verdict.reason[:_LONGEST_REASON].replace("\0", "").encode(errors="replace").decode()
    return replace(verdict, exit_code=code, reason=reason)


def _by_cause(
    ended: Ended,
    ranks: Mapping[int, RankEnd],
    expected_ranks: int,
    launcher_log: str,
    logs: Mapping[int, str],
) -> Verdict:
    if ended.trouble:
        cause, ours = cause_of(ended.trouble), ended.vanished or ended.exit_code == 125
        end = EndReason.LAUNCHER if ours else EndReason.SCRIPT_ERROR
        if cause is not None and cause.end is EndReason.DISK_FULL:
            end = cause.end
        return Verdict(ended.exit_code, _capital(ended.trouble), end)
    if ended.memory_limit_bytes:
        limit = format_bytes(ended.memory_limit_bytes)
        reason = f"It used more memory than its limit on this node, {limit}, and was ended."
        return Verdict(137, reason, EndReason.OUT_OF_MEMORY_HOST)
    if ended.cut_off_ms:
        silence = format_duration_ms(ended.cut_off_ms)
        return Verdict(
            ended.exit_code or 143,
            f"No heartbeat of its node was acknowledged for {silence}: it was ended before it could start elsewhere.",
            EndReason.NODE_LOST,
        )
    if ended.stopped:
        return _stopped(ended, ranks, expected_ranks)
    if ended.exit_code == 0:
        return Verdict(0, "", EndReason.SUCCEEDED)
    failed = [
        _rank_verdict(rank, code, ranks[rank].error if rank in ranks else "", logs.get(rank, ""))
        for rank, code in _failed(launcher_log, ranks).items()
    ]
    if failed:
        return next((verdict for verdict in failed if not _is_consequence(verdict)), failed[0])
    output = next(iter(logs.values())) if len(logs) == 1 else ""
    return _command_verdict(ended.exit_code, output or launcher_log)


def _failed(launcher_log: str, ranks: Mapping[int, RankEnd]) -> dict[int, int]:
    """Exit codes of the failed ranks by rank, the one that torchrun saw fail first in front."""
    reported = [
        (int(rank), 128 - int(code) if int(code) < 0 else int(code))
        for rank, code in reversed(_FAILED_RANK.findall(launcher_log))
    ]
    codes = dict(reported)
    for rank in sorted(ranks):
        if ranks[rank].exit_code != 0:
            codes.setdefault(rank, ranks[rank].exit_code)
    return codes


def _rank_verdict(rank: int, code: int, error: str, log: str) -> Verdict:
    cause = _cause(error, log)
    quote = _quote(error or (cause.line if cause else "") or _last(log))
    return Verdict(code, f"Rank {rank} {_how(code)}{quote}.", cause.end if cause else _end_by_code(code))


def _command_verdict(code: int, output: str) -> Verdict:
    cause = cause_in(output)
    quote = _quote(_last(output)) or _quote(cause.line if cause else "")
    return Verdict(code, f"Its command {_how(code)}{quote}.", cause.end if cause else _end_by_code(code))


def _cause(error: str, log: str) -> Cause | None:
    """The cause of a rank's end, by the exception that ended it; by its log where there was none.

    An exception may say more in the lines after its first. Lost connections in these lines come from other ranks.
    """
    own = cause_of(error)
    if not error:
        return cause_in(log)
    if own is not None and own.end is not EndReason.NETWORK:
        return own
    more = cause_in(log[log.rfind(_TRACEBACK) :]) if _TRACEBACK in log else None
    return more if more is not None and more.end is not EndReason.NETWORK else own


def _is_consequence(verdict: Verdict) -> bool:
    """Whether another rank's failure may have caused it: torchrun ends the others by SIGTERM."""
    return verdict.end is EndReason.NETWORK or verdict.exit_code == 128 + signal.SIGTERM


def _end_by_code(code: int) -> EndReason:
    return EndReason.KILLED if _signal_name(code) else EndReason.SCRIPT_ERROR


def _stopped(ended: Ended, ranks: Mapping[int, RankEnd], expected_ranks: int) -> Verdict:
    if ended.killed_after_grace:
        reason = "It was asked to stop, did not end within its grace, and was killed."
        return Verdict(137, reason, EndReason.STOPPED)
    clean = 0 < expected_ranks <= len(ranks) and all(end.exit_code == 0 for end in ranks.values())
    # torchrun exits with 1 after SIGTERM even when every rank saved and left in peace: trust the ranks.
    return Verdict(0 if clean else ended.exit_code, "It was asked to stop, and did.", EndReason.STOPPED)


def _how(code: int) -> str:
    name = _signal_name(code)
    return f"was killed by {name}" if name else f"ended with exit code {code}"


def _signal_name(code: int) -> str:
    try:
        return signal.Signals(code - 128).name if code > 128 else ""
    except ValueError:
        return ""


def _quote(line: str) -> str:
    line = line.strip()
    if not _EXCEPTION.match(line) and cause_of(line) is None:
        return ""
    return f": {line[:_LONGEST_QUOTE].rstrip('.')}"


def _last(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def _capital(sentence: str) -> str:
    sentence = sentence.strip()
    return sentence[:1].upper() + sentence[1:] + ("" if sentence.endswith(".") else ".")
