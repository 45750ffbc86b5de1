"""Two plans side by side: what each part of the step and of the memory costs, and the difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from platform_core.parallelism.advice import Ranked
from platform_core.parallelism.plan import Plan
from platform_core.units import format_bytes


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    left: str
    right: str
    difference: str
    total: bool = False


@dataclass(frozen=True, slots=True)
class Versus:
    picks: Mapping[str, int]  # left and right: places in the ranking
    left: str
    right: str
    groups: Sequence[Sequence[Line]]


def versus(plans: Sequence[Ranked], query: Mapping[str, str]) -> Versus:
    """Without a choice, the first against the second."""
    picks = {
        name: _pick(query.get(name, ""), usual, len(plans)) for name, usual in (("left", 0), ("right", 1))
    }
    one, other = (plans[place] for place in picks.values())
    groups = (_step(one.plan, other.plan), _memory(one.plan, other.plan))
    left, right = (f"{each.title}, {detail(each)}" for each in (one, other))
    return Versus(picks, left, right, groups)


def detail(ranked: Ranked) -> str:
    """What the title of a layout leaves out."""
    layout = ranked.plan.layout
    tensor = ", sequence parallel" if layout.sequence_parallel and layout.tensor > 1 else ""
    return f"micro-batch {layout.micro_batch}{tensor}"


def _pick(text: str, usual: int, count: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 and int(text) < count else usual


def _step(one: Plan, other: Plan) -> list[Line]:
    others = dict(other.step.parts)
    pairs = [(name, seconds, others[name]) for name, seconds in one.step.parts]
    lines = [_line(name, left, right, _milliseconds) for name, left, right in pairs if left or right]
    return [*lines, _line("step", one.step.total, other.step.total, _milliseconds, total=True)]


def _memory(one: Plan, other: Plan) -> list[Line]:
    right = asdict(other.memory)
    lines = [_line(name, left, right[name], _bytes) for name, left in asdict(one.memory).items()]
    return [*lines, _line("memory", one.memory.total, other.memory.total, _bytes, total=True)]


def _line(name: str, left: float, right: float, shown: Callable[[float], str], total: bool = False) -> Line:
    apart = shown(abs(right - left))
    sign = "" if apart == shown(0) else "+" if right > left else "-"
    return Line(name, shown(left), shown(right), f"{sign}{apart}", total)


def _milliseconds(seconds: float) -> str:
    return f"{1_000 * seconds:,.0f} ms"


def _bytes(count: float) -> str:
    return format_bytes(round(count))
