from dataclasses import dataclass

from platform_core.distribution.rollouts.canaries import DEFAULT_CHECK_SECONDS, DEFAULT_COMMAND_SECONDS


@dataclass(frozen=True, slots=True)
class RolloutWish:
    """How the nodes shall switch, in the words of whoever asks; see platform_core.distribution.rollouts.canaries."""

    canary: str = ""  # a number or a percentage; none: nobody goes first
    hold_seconds: int | None = None  # none: until somebody promotes
    health_check: str = ""
    check_every_seconds: int = DEFAULT_CHECK_SECONDS  # 0: at both ends of the hold alone
    roll_back_after: int = 0  # failed checks in a row; 0: the first one stops the rollout where it is
    hook: str = ""
    wait_for_all: bool = False
    command_seconds: int = DEFAULT_COMMAND_SECONDS
