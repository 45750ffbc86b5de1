"""Kinds of field values: how each is read from what people send, written as JSON, loaded again, and described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from platform_core.jobs import field_readers
from platform_core.jobs.reader import Reader, Text
from platform_core.units import GIB, MIB, parse_bytes

Schema = Mapping[str, Any]


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Kind:
    """`read(reader, name, default)` refuses a bad value with a sentence and yields the default. `plain` makes JSON of a
    value, and `load` the value of that JSON: it was checked when it came in, so that only its type is looked at.
    """

    read: Callable[[Reader, str, Any], Any]
    schema: Schema  # the JSON schema of what is sent
    load: Callable[[Any], Any]
    plain: Callable[[Any], Any] = _same
    required: bool = False
    names: Mapping[str, int] = field(default_factory=dict)  # words that stand for numbers
    inside: type | None = None  # the dataclass of a value that has fields of its own


def line(longest: int, *, required: str = "", pattern: str = "", words: str = "") -> Kind:
    """One line of text. `required` is the remedy for a missing one; `words` say what `pattern` wants."""
    shape = Text(longest, required, pattern, words)
    schema: dict[str, Any] = {"type": "string", "maxLength": longest}
    if required:
        schema["minLength"] = 1
    if pattern:
        schema["pattern"] = f"^{pattern}$" if required else f"^({pattern})?$"
    return Kind(
        lambda reader, name, default: reader.text(name, shape) or default or "",
        schema,
        _load_text,
        required=bool(required),
    )


def slug(longest: int, words: str, *, required: str = "") -> Kind:
    """One word of letters, digits, dots, dashes and underscores."""
    return line(longest, required=required, pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*", words=words)


def whole(low: int, high: int, *, optional: bool = False, names: Mapping[str, int] | None = None) -> Kind:
    """A whole number; an optional one may be None. `names` may be sent instead of their numbers."""
    numbers = names or {}

    def read(reader: Reader, name: str, default: Any) -> Any:
        value = reader.value(name)
        if isinstance(value, str) and value in numbers:
            return numbers[value]
        return None if optional and value is None else reader.whole(name, default, low, high)

    number: dict[str, Any] = {"type": "integer", "minimum": low, "maximum": high}
    if optional:
        number["nullable"] = True
    schema = {"oneOf": [number, {"type": "string", "enum": list(numbers)}]} if numbers else number
    return Kind(read, schema, _load_optional_whole if optional else _load_whole, names=numbers)


def scaled(unit: int, most: int, *, positive: bool) -> Kind:
    """A number in a unit that people use, such as hours, kept as a whole number of a smaller one."""
    least = {"minimum": 0, "exclusiveMinimum": True} if positive else {"minimum": 0}

    def load(value: Any) -> int:
        if type(value) is int:
            return value * unit
        return round(_load_float(value) * unit)

    return Kind(
        lambda reader, name, default: reader.scaled(name, default, unit, most, positive=positive),
        {"type": "number", **least, "maximum": most},
        load,
        lambda amount: amount // unit if amount % unit == 0 else amount / unit,
    )


def size() -> Kind:
    """Bytes, written with a unit, or 0."""
    return Kind(
        field_readers.memory, {"oneOf": [{"type": "string"}, {"type": "integer"}]}, _load_size, _plain_size
    )


def truth() -> Kind:
    return Kind(
        lambda reader, name, default: reader.truth(name, default),
        {"type": "boolean"},
        lambda value: _typed(value, bool),
    )


def choice(options: type[StrEnum]) -> Kind:
    return Kind(
        lambda reader, name, default: field_readers.choice(reader, name, options, default),
        {"type": "string", "enum": [option.value for option in options]},
        options,
        lambda option: option.value,
    )


def command() -> Kind:
    schema = {
        "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "minLength": 1,
    }
    return Kind(
        lambda reader, name, default: field_readers.command(reader),
        schema,
        _load_words,
        list,
        required=True,
    )


def words(read: Callable[[Reader], tuple[str, ...]], most: int) -> Kind:
    """A list of texts without repeats."""
    schema = {"type": "array", "items": {"type": "string"}, "maxItems": most}
    return Kind(lambda reader, name, default: read(reader), schema, _load_words, list)


def pairs(read: Callable[[Reader], tuple[tuple[str, Any], ...]], most: int, values: Schema) -> Kind:
    """Names with values, ordered by name."""
    schema = {"type": "object", "additionalProperties": values, "maxProperties": most}
    return Kind(lambda reader, name, default: read(reader), schema, _load_pairs, dict)


def folder() -> Kind:
    """A relative path inside the work folder of an attempt."""
    return Kind(
        field_readers.checkpoint_path,
        {"type": "string", "maxLength": field_readers.PATH.longest},
        _load_text,
    )


def _typed(value: Any, expected: type) -> Any:
    if type(value) is not expected:
        raise TypeError(f"{value!r} is not of type {expected.__name__}")
    return value


def _load_float(value: Any) -> float:
    if type(value) is not float:
        raise TypeError(f"{value!r} is not a number")
    return value


def _load_text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is not text")
    return value


def _load_whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _load_optional_whole(value: Any) -> int | None:
    return None if value is None else _load_whole(value)


def _load_words(value: Any) -> tuple[str, ...]:
    return tuple(_typed(value, list))


def _load_pairs(value: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(_typed(value, dict).items())) if value else ()


@lru_cache(maxsize=1024)
def _load_size(value: str | int) -> int:
    return parse_bytes(value)


def _plain_size(count: int) -> str | int:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB")):
        if count and count % unit == 0:
            return f"{count // unit}{name}"
    return count
