"""Why a job waits that could start: it ends earlier on a better place."""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob
from platform_core.scheduling.decisions import Number, WaitCode
from platform_core.scheduling.placement.better_place import place_words
from platform_core.scheduling.state.round_state import RoundState
from platform_core.scheduling.wording import amount
from platform_core.units import SECOND_MS, format_duration_ms


def left_place(
    state: RoundState, job: PendingJob
) -> tuple[WaitCode, tuple[tuple[str, Number], ...], str] | None:
    """None where it has left no place in this round."""
    left = state.left_places.get(job.id)
    if left is None:
        return None
    now_ms, now, later = state.snapshot.now_ms, left.now.step, left.later
    lost, wait_ms = now.step_us / later.step.step_us - 1, later.start_ms - now_ms
    sentence = (
        f"needs {amount(job.num_gpus, job.gpu_type)} and could start {place_words(now)}, where by the planner a step "
        f"takes {100 * lost:.0f} % longer than {place_words(later.step)}: {format_duration_ms(left.lost_ms)} over its "
        f"run; it waits for that, expected in {_in(wait_ms)}, and takes what is free after "
        f"{_in(left.until_ms - now_ms)}"
    )
    numbers = (("needed", job.num_gpus), ("lost_ms", left.lost_ms), ("better_in_ms", wait_ms))
    return WaitCode.BETTER_PLACE, numbers, sentence


def _in(wait_ms: int) -> str:
    return "a moment" if wait_ms < SECOND_MS else format_duration_ms(wait_ms)
