"""Reads the search space of a sweep file, with a sentence for each problem at its place, such as space.lr.low."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from platform_core.jobs.field_readers import Scalar
from platform_core.jobs.reader import Reader, shown
from platform_core.sweeps.space import LOGARITHMIC, WHOLE, Dimension, DimensionKind, Space

MAX_DIMENSIONS = 50
MAX_VALUES = 200
MAX_POINTS = 1_000
_LARGEST = 1e15  # whole numbers are exact up to here


def read_space(read: Reader, name: str, default: Space) -> Space:
    pairs = read.pairs(name)
    if not pairs:
        read.say(
            name,
            "is empty; name at least one parameter, such as lr: {type: log_uniform, low: 1e-4, high: 1e-1}",
        )
        return default or ()
    if len(pairs) > MAX_DIMENSIONS:
        read.say(name, f"has {len(pairs)} parameters; the limit is {MAX_DIMENSIONS}")
        return default or ()
    inside = read.nested(name)
    dimensions = {}
    for parameter, value in pairs:
        if not 0 < len(parameter) <= 120 or not parameter.isprintable():
            read.refuse(name, f"parameter {shown(parameter)}: a name is one line of 1 to 120 characters")
        elif (dimension := _dimension(inside, parameter, value)) is not None:
            dimensions[parameter] = dimension
    return _ordered(inside, dimensions)


def _dimension(read: Reader, name: str, value: object) -> Dimension | None:
    if isinstance(value, list | tuple):
        value = {"type": "choice", "values": list(value)}
    if not isinstance(value, Mapping):
        example = "{type: uniform, low: 0, high: 1} or [adam, sgd]"
        read.say(name, f"is {shown(value)}; describe it, such as {example}")
        return None
    fields = read.inside(name, value)
    kind = _kind(fields)
    if kind is None:
        return None
    made: dict[str, Any] = {}
    if kind is DimensionKind.CHOICE:
        made["values"] = _values(fields, "values")
    else:
        made |= _range(fields, kind)
    made["parent"], made["parent_values"] = _condition(fields)
    fields.refuse_the_rest()
    return Dimension(name, kind, **made) if fields.sound(*_FIELDS) else None


_FIELDS = ("type", "low", "high", "step", "points", "values", "when")


def _kind(read: Reader) -> DimensionKind | None:
    value = read.value("type")
    try:
        return DimensionKind(str(value))
    except ValueError:
        problem = "is missing; it is" if value is None else f"is {shown(value)}; it must be"
        read.say("type", f"{problem} one of {', '.join(DimensionKind)}")
        return None


def _range(read: Reader, kind: DimensionKind) -> dict[str, Any]:
    low, high = _number(read, "low", kind), _number(read, "high", kind)
    step = _number(read, "step", kind, optional=True) or 0.0
    points = read.whole("points", 0, 2, MAX_POINTS)
    if low is None or high is None:
        return {}
    if low >= high:
        read.say("high", f"is {high:g}, not more than low {low:g}; raise it")
    least = 1.0 if kind in WHOLE else 0.0
    if kind in LOGARITHMIC and (low < least or low <= 0):
        read.say("low", f"is {low:g}; a logarithmic range begins at {'1' if least else 'more than 0'}")
    if step and kind in LOGARITHMIC:
        read.say("step", f"is {step:g}; a logarithmic range has no steps: leave it out")
    elif step < 0 or step > high - low:
        read.say("step", f"is {step:g}; it must be more than 0 and at most {high - low:g}")
    return {"low": low, "high": high, "step": step, "points": points}


def _number(read: Reader, name: str, kind: DimensionKind, *, optional: bool = False) -> float | None:
    value = read.value(name)
    if value is None:
        if not optional:
            read.say(name, "is missing; give a number")
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        read.say(name, f"is {shown(value)}; it must be a number")
        return None
    if kind in WHOLE and value != int(value):
        read.say(name, f"is {value:g}; it must be a whole number, or the type {_of_floats(kind)}")
        return None
    return float(value)


def _of_floats(kind: DimensionKind) -> DimensionKind:
    return DimensionKind.UNIFORM if kind is DimensionKind.INTEGER else DimensionKind.LOG_UNIFORM


def _values(read: Reader, name: str) -> tuple[Scalar, ...]:
    value = read.value(name)
    if not isinstance(value, list | tuple) or not value:
        read.say(
            name,
            f"is {shown(value)}; it must be a list of values" if value else "is missing; list the values",
        )
        return ()
    if len(value) > MAX_VALUES:
        read.say(name, f"has {len(value)} values; the limit is {MAX_VALUES}")
        return ()
    for entry in value:
        if not _is_scalar(entry):
            read.say(name, f"has {shown(entry)}; a value must be text, a number, true or false")
            return ()
    if len({(type(entry).__name__, entry) for entry in value}) < len(value):
        read.say(name, "has a value twice; remove one")
    return tuple(value)


def _is_scalar(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= 1_000 and "\0" not in value
    return isinstance(value, int | float) and abs(value) <= _LARGEST


def _condition(read: Reader) -> tuple[str, tuple[Scalar, ...]]:
    """`when: {optimizer: sgd}`, or a list of values."""
    pairs = read.pairs("when")
    if not pairs:
        return "", ()
    if len(pairs) > 1:
        read.say("when", f"names {len(pairs)} parameters; it may name one")
        return "", ()
    parent, value = pairs[0]
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not values or not all(_is_scalar(entry) for entry in values):
        read.say("when", f"asks for {shown(value)}; give a value of {parent}, or a list of values")
        return "", ()
    return parent, values


def _ordered(read: Reader, dimensions: dict[str, Dimension]) -> Space:
    """By name, but each parent before its children. Refuses unknown parents, impossible values and circles."""
    ordered: dict[str, Dimension] = {}
    waiting = dict(sorted(dimensions.items()))
    for name, dimension in list(waiting.items()):
        parent = dimensions.get(dimension.parent)
        if dimension.parent and parent is None:
            others = ", ".join(sorted(set(dimensions) - {name})) or "no other"
            read.say(f"{name}.when", f"names {dimension.parent}, which is not a parameter; there is {others}")
            del waiting[name]
        elif parent is not None and not all(parent.has(value) for value in dimension.parent_values):
            values = ", ".join(map(str, dimension.parent_values))
            read.say(f"{name}.when", f"asks for {dimension.parent} {values}, which it never is")
    while waiting:
        free = [name for name, dimension in waiting.items() if dimension.parent not in waiting]
        if not free:
            names = ", ".join(waiting)
            read.say(
                f"{next(iter(waiting))}.when", f"depends on itself in a circle: {names}; remove one condition"
            )
            break
        for name in free:
            ordered[name] = waiting.pop(name)
    return tuple(ordered.values())


def plain_space(space: Space) -> dict[str, Any]:
    """The space as a sweep file has it."""
    return {dimension.name: _plain(dimension) for dimension in space}


def _plain(dimension: Dimension) -> dict[str, Any]:
    plain: dict[str, Any] = {"type": dimension.kind.value}
    if dimension.kind is DimensionKind.CHOICE:
        plain["values"] = list(dimension.values)
    else:
        number = int if dimension.kind in WHOLE else float
        plain |= {"low": number(dimension.low), "high": number(dimension.high)}
        plain |= {"step": number(dimension.step)} if dimension.step else {}
        plain |= {"points": dimension.points} if dimension.points else {}
    if dimension.parent:
        plain["when"] = {dimension.parent: list(dimension.parent_values)}
    return plain


def load_space(mapping: Mapping[str, Any]) -> Space:
    """The space that `plain_space` wrote."""
    return read_space(Reader({"space": mapping}, []), "space", ())
