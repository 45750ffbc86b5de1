"""The search space of a sweep: its dimensions, how a setting is drawn from them, and the grid over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from platform_core.jobs.field_readers import Scalar

Parameters = dict[str, Scalar]


class DimensionKind(StrEnum):
    UNIFORM = "uniform"
    LOG_UNIFORM = "log_uniform"
    INTEGER = "integer"
    LOG_INTEGER = "log_integer"
    CHOICE = "choice"


WHOLE = frozenset({DimensionKind.INTEGER, DimensionKind.LOG_INTEGER})
LOGARITHMIC = frozenset({DimensionKind.LOG_UNIFORM, DimensionKind.LOG_INTEGER})


@dataclass(frozen=True, slots=True)
class Dimension:
    """One parameter. With a parent it exists only in settings whose parent has one of `parent_values`."""

    name: str
    kind: DimensionKind
    low: float = 0.0
    high: float = 0.0
    step: float = 0.0  # 0: not quantised
    points: int = 0  # values in a grid; 0: all of them
    values: tuple[Scalar, ...] = ()  # of a choice
    parent: str = ""
    parent_values: tuple[Scalar, ...] = ()

    @property
    def logarithmic(self) -> bool:
        return self.kind in LOGARITHMIC

    @property
    def countable(self) -> bool:
        """Whether the values can be listed."""
        return self.kind in WHOLE or self.kind is DimensionKind.CHOICE or self.step > 0

    def active(self, parameters: Mapping[str, Scalar]) -> bool:
        return not self.parent or (
            self.parent in parameters and _among(parameters[self.parent], self.parent_values)
        )

    def value_at(self, fraction: float) -> Scalar:
        """The value at a fraction of the range from 0 up to, not including, 1: a uniform draw of it is a draw of the
        dimension."""
        if self.kind is DimensionKind.CHOICE:
            return self.values[int(fraction * len(self.values))]
        if self.kind is DimensionKind.LOG_INTEGER:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            drawn = round(math.exp(low + fraction * (high - low)))
            return int(min(max(drawn, self.low), self.high))
        step = self.step or (1.0 if self.kind in WHOLE else 0.0)
        if step:
            return self._typed(self.low + int(fraction * (self.steps + 1)) * step)
        return self._typed(self._between(fraction))

    @property
    def steps(self) -> int:
        """How many steps lie between the lowest and the highest value."""
        return math.floor((self.high - self.low) / (self.step or 1.0) + 1e-9)

    def grid(self) -> tuple[Scalar, ...]:
        """The values of a grid: all of a countable dimension, or `points` from the lowest to the highest."""
        if self.kind is DimensionKind.CHOICE:
            return self.values
        count = self.steps + 1 if self.countable else self.points
        if 0 < self.points < count or not self.countable:
            spread = [index / max(1, self.points - 1) for index in range(self.points)]
            return tuple(dict.fromkeys(self._nearest(self._between(part)) for part in spread))
        return tuple(self._typed(self.low + index * (self.step or 1.0)) for index in range(count))

    def has(self, value: Scalar) -> bool:
        """Whether the value is of this dimension; a quantised one may be off its steps."""
        if self.kind is DimensionKind.CHOICE:
            return _among(value, self.values)
        if isinstance(value, bool | str):
            return False
        return self.low <= value <= self.high and (self.kind not in WHOLE or value == int(value))

    def _between(self, fraction: float) -> float:
        if self.logarithmic:
            low, high = math.log(self.low), math.log(self.high)
            return math.exp(low + fraction * (high - low))
        return self.low + fraction * (self.high - self.low)

    def _nearest(self, value: float) -> Scalar:
        step = self.step or (1.0 if self.kind in WHOLE else 0.0)
        return self._typed(self.low + round((value - self.low) / step) * step if step else value)

    def _typed(self, value: float) -> Scalar:
        """Twelve digits: 0.1 + 2 * 0.1 is 0.3."""
        return round(value) if self.kind in WHOLE else min(max(float(f"{value:.12g}"), self.low), self.high)


Space = tuple[Dimension, ...]  # a parent stands before its children


def draw(space: Space, chance: Callable[[], float]) -> Parameters:
    """A random setting. `chance` gives numbers from 0 up to 1: one for each dimension, whether it exists or not."""
    parameters: Parameters = {}
    for dimension in space:
        value = dimension.value_at(chance())
        if dimension.active(parameters):
            parameters[dimension.name] = value
    return parameters


def grid(space: Space) -> Iterator[Parameters]:
    """All settings of the grid, the last dimension changing first. A parameter that does not exist has no values."""
    if not space:
        yield {}
        return
    *before, last = space
    for parameters in grid(tuple(before)):
        if not last.active(parameters):
            yield parameters
            continue
        for value in last.grid():
            yield {**parameters, last.name: value}


def why_not(space: Space, parameters: Mapping[str, object]) -> str:
    """Why this is no setting of the space, naming the parameter, its value and its range; '' where it is one."""
    known = {dimension.name: dimension for dimension in space}
    for name in parameters:
        if name not in known:
            return f"{name} is not a parameter of the sweep; it has {', '.join(known)}"
    for name, dimension in known.items():
        value = parameters.get(name)
        if not dimension.active(
            {key: at for key, at in parameters.items() if isinstance(at, str | int | float)}
        ):
            if name in parameters:
                values = ", ".join(map(str, dimension.parent_values))
                return f"{name} exists only where {dimension.parent} is {values}; leave it out"
        elif name not in parameters:
            return f"{name} is missing; give each parameter a value"
        elif not isinstance(value, str | int | float) or not dimension.has(value):
            return f"{name} is {value!r}; it must be {in_words(dimension)}"
    return ""


def in_words(dimension: Dimension) -> str:
    if dimension.kind is DimensionKind.CHOICE:
        return f"one of {', '.join(map(str, dimension.values))}"
    kind = "a whole number" if dimension.kind in WHOLE else "a number"
    return f"{kind} from {dimension.low:g} to {dimension.high:g}"


def _among(value: Scalar, values: tuple[Scalar, ...]) -> bool:
    """True is not 1 here, though 1.0 is."""
    return any(value == other and isinstance(value, bool) is isinstance(other, bool) for other in values)
