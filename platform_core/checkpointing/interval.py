"""How often to save: often enough that a failure costs little, seldom enough that saving costs little."""

from __future__ import annotations

import math
from dataclasses import dataclass

from platform_core.units import format_duration_ms


@dataclass(frozen=True, slots=True)
class Advice:
    interval_ms: int  # of computing, between the end of one save and the start of the next
    waste: float  # part of the wall time that saving, lost work and restarting are expected to take
    sentence: str


def young(save_ms: int, mtbf_ms: int) -> float:
    """sqrt(2 C M).

    J. W. Young, "A first order approximation to the optimum checkpoint interval", Comm. ACM 17(9), 1974.
    Holds for a save time C far below the mean time between failures M, with failures at random (Poisson).
    """
    return math.sqrt(2.0 * save_ms * mtbf_ms)


def daly(save_ms: int, mtbf_ms: int) -> float:
    """sqrt(2 C M) [1 + 1/3 sqrt(C/2M) + 1/9 (C/2M)] - C for C < 2M, else M.

    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
    Generation Computer Systems 22(3), 2006. Failures at random as above, but good for long saves too.
    Never below C/2, the value at C = 2M: just above that M the series is a ninth lower, so that more failures would
    lengthen the interval.
    """
    if save_ms >= 2 * mtbf_ms:
        return float(mtbf_ms)
    ratio = save_ms / (2.0 * mtbf_ms)
    series = young(save_ms, mtbf_ms) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - save_ms
    return max(series, save_ms / 2)


def waste(interval_ms: float, save_ms: int, mtbf_ms: int, restart_ms: int = 0) -> float:
    """Expected part of the wall time that is not new work, by the complete model of the same paper.

    Wall time for each unit of work is M e^(R/M) (e^((T+C)/M) - 1) / T.
    """
    exponent = (interval_ms + save_ms) / mtbf_ms
    if exponent > 700 or restart_ms / mtbf_ms > 700:  # e^700 is the end of floats: nothing gets done
        return 1.0
    stretch = mtbf_ms * math.exp(restart_ms / mtbf_ms) * math.expm1(exponent) / interval_ms
    return max(0.0, 1.0 - 1.0 / stretch)


def advise(save_ms: int, node_mtbf_ms: int, nodes: int = 1, restart_ms: int = 0) -> Advice:
    """Daly's interval for a gang. One node's failure stops them all, so they fail `nodes` times as often."""
    if save_ms <= 0 or node_mtbf_ms <= 0 or nodes <= 0 or restart_ms < 0:
        raise ValueError("the save time, the time between failures and the nodes must be more than 0")
    gang_mtbf = max(1, node_mtbf_ms // nodes)
    interval = max(1, round(daly(save_ms, gang_mtbf)))
    part = waste(interval, save_ms, gang_mtbf, restart_ms)
    which = "the node" if nodes == 1 else f"one of {nodes} nodes"
    sentence = (
        f"save every {format_duration_ms(interval)}: a save takes {format_duration_ms(save_ms)}, "
        f"{which} fails about every {format_duration_ms(gang_mtbf)}; "
        f"saving and lost work then take {part:.1%} of the time"
    )
    return Advice(interval, part, sentence)
