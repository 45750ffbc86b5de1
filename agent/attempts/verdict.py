"""How an attempt ended, in one sentence and one exit code. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent.launchers.contract import Ended
from platform_core.jobs.ends import EndReason
from platform_core.units import format_bytes, format_duration_ms

# torchrun's own report of a failed rank; the root cause is the last block.
_FAILED_RANK = re.compile(r"rank\s*: (\d+) \(local_rank: \d+\)\s*\n\s*exitcode\s*: (-?\d+)")
_EXCEPTION = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt|Exit|Warning)|Killed|Segmentation fault)\b.*"
    r"|^(?:\S*/)?(?:python[\d.]*|sh|bash|env|timeout): .*"  # what starts programs, and could not
)
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
    last_lines: Mapping[int, str],
) -> Verdict:
    """Decides how an attempt ended. `last_lines` by rank; `expected_ranks` on this node, 0 for a custom command.

    All of it comes from files that the job could write to, so the verdict is made to fit the message that carries it.
    """
    verdict = _by_cause(ended, ranks, expected_ranks, launcher_log, last_lines)
    code = verdict.exit_code if 0 <= verdict.exit_code <= 255 else 1
    reason = verdict.reason[:_LONGEST_REASON].replace("\0", "").encode(errors="replace").decode()
    return replace(verdict, exit_code=code, reason=reason)


def _by_cause(
    ended: Ended,
    ranks: Mapping[int, RankEnd],
    expected_ranks: int,
    launcher_log: str,
    last_lines: Mapping[int, str],
) -> Verdict:
    if ended.trouble:
        ours = ended.vanished or ended.exit_code == 125
        return Verdict(
            ended.exit_code, _capital(ended.trouble), EndReason.LAUNCHER if ours else EndReason.SCRIPT_ERROR
        )
    if ended.memory_limit_bytes:
        limit = format_bytes(ended.memory_limit_bytes)
        reason = f"It used more memory than its limit on this node, {limit}, and was ended."
        return Verdict(137, reason, EndReason.OUT_OF_MEMORY_HOST)
    if ended.agent_silent_ms:
        silence = format_duration_ms(ended.agent_silent_ms)
        return Verdict(
            ended.exit_code or 143,
            f"The agent of its node was silent for {silence}, so it was ended before it could start elsewhere.",
            EndReason.LAUNCHER,
        )
    if ended.stopped:
        return _stopped(ended, ranks, expected_ranks)
    if ended.exit_code == 0:
        return Verdict(0, "", EndReason.SUCCEEDED)
    failed = _root_cause(launcher_log) or _first_failed(ranks)
    if failed is None:
        (rank,) = last_lines if len(last_lines) == 1 else (None,)
        quote = _quote(last_lines.get(rank, "") if rank is not None else "") or _quote(_last(launcher_log))
        return Verdict(ended.exit_code, f"Its command {_how(ended.exit_code)}{quote}.")
    rank, code = failed
    error = ranks[rank].error if rank in ranks and ranks[rank].error else last_lines.get(rank, "")
    return Verdict(code, f"Rank {rank} {_how(code)}{_quote(error)}.")


def _stopped(ended: Ended, ranks: Mapping[int, RankEnd], expected_ranks: int) -> Verdict:
    if ended.killed_after_grace:
        reason = "It was asked to stop, did not end within its grace, and was killed."
        return Verdict(137, reason, EndReason.STOPPED)
    clean = 0 < expected_ranks <= len(ranks) and all(end.exit_code == 0 for end in ranks.values())
    # torchrun exits with 1 after SIGTERM even when every rank saved and left in peace: trust the ranks.
    return Verdict(0 if clean else ended.exit_code, "It was asked to stop, and did.", EndReason.STOPPED)


def _root_cause(launcher_log: str) -> tuple[int, int] | None:
    failures = _FAILED_RANK.findall(launcher_log)
    if not failures:
        return None
    rank, code = failures[-1]
    return int(rank), 128 - int(code) if int(code) < 0 else int(code)


def _first_failed(ranks: Mapping[int, RankEnd]) -> tuple[int, int] | None:
    failed = sorted((rank, end.exit_code) for rank, end in ranks.items() if end.exit_code != 0)
    return failed[0] if failed else None


def _how(code: int) -> str:
    if code > 128:
        try:
            return f"was killed by {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"ended with exit code {code}"


def _quote(line: str) -> str:
    line = line.strip()
    if not _EXCEPTION.match(line):
        return ""
    return f": {line[:_LONGEST_QUOTE].rstrip('.')}"


def _last(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def _capital(sentence: str) -> str:
    sentence = sentence.strip()
    return sentence[:1].upper() + sentence[1:] + ("" if sentence.endswith(".") else ".")
