"""Fields that are described once, where they are defined; parser, JSON, form, REST schema and reference follow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from platform_core.jobs.kinds import Kind
from platform_core.jobs.reader import Reader


class Group(StrEnum):
    """A section of the form and of the reference, under its title."""

    BASICS = "Basics"
    CODE = "Code"
    RESOURCES = "Resources"
    LAYOUT = "Layout"
    SHAPE = "Model shape"
    SCHEDULING = "Scheduling"
    CHECKPOINTS = "Checkpoints"
    EXPERIMENT = "Experiment"
    DATA = "Data"
    ENVIRONMENT = "Environment"
    NODES = "Nodes"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a dataclass: `attribute` there, `name` in a job file, `label` and `help` for people."""

    kind: Kind
    label: str
    help: str
    group: StrEnum
    default: Any
    like: str  # the attribute whose value is the default, else ''
    example: str
    name: str = ""
    attribute: str = ""

    @property
    def plain_default(self) -> Any:
        return None if self.default is None else self.kind.plain(self.default)


def described(
    kind: Kind,
    label: str,
    help: str,
    group: StrEnum,
    *,
    default: Any = None,
    like: str = "",
    example: str = "",
    name: str = "",
) -> Any:
    """A dataclass field with its description. `name` where a job file calls it otherwise than the dataclass."""
    given = Field(kind, label, help, group, default, like, example, name)
    return dataclasses.field(
        default=MISSING if kind.required or like else default, metadata={"described": given}
    )


@lru_cache
def fields_of(described_class: Any) -> tuple[Field, ...]:
    described_fields = (
        (field.name, field.metadata["described"]) for field in dataclasses.fields(described_class)
    )
    return tuple(
        replace(given, name=given.name or attribute, attribute=attribute)
        for attribute, given in described_fields
    )


def nested(described_class: type, group: StrEnum, *, name: str = "") -> Any:
    """A field that has fields of its own; it is required if one of them is."""
    required = any(field.kind.required for field in fields_of(described_class))

    def read(reader: Reader, name: str, default: Any) -> Any:
        inside = reader.nested(name)
        value = read_fields(described_class, inside)
        inside.refuse_the_rest()
        return value

    kind = Kind(
        read,
        schema_of(described_class),
        lambda mapping: load_fields(described_class, mapping),
        plain_fields,
        required=required,
        inside=described_class,
    )
    return described(kind, "", "", group, default=None if required else described_class(), name=name)


def leaves(described_class: type, prefix: str = "") -> Iterator[Field]:
    """The fields with those inside others under their full names, such as `checkpoint.keep_last`."""
    for field in fields_of(described_class):
        name = f"{prefix}{field.name}"
        if field.kind.inside is None:
            yield replace(field, name=name)
        else:
            yield from leaves(field.kind.inside, f"{name}.")


def read_fields(described_class: type, reader: Reader) -> Any:
    values: dict[str, Any] = {}
    for field in fields_of(described_class):
        default = values[field.like] if field.like else field.default
        values[field.attribute] = field.kind.read(reader, field.name, default)
    return described_class(**values)


def plain_fields(value: Any) -> dict[str, Any]:
    return {
        field.name: field.kind.plain(getattr(value, field.attribute)) for field in fields_of(value.__class__)
    }


def load_fields(described_class: type, mapping: Mapping[str, Any]) -> Any:
    """The value of a mapping that `plain_fields` made. A field that it lacks came later, and has its default."""
    values: dict[str, Any] = {}
    for name, attribute, load in _loaders(described_class):
        if name in mapping:
            values[attribute] = load(mapping[name])
    return described_class(**values)


@lru_cache
def _loaders(described_class: Any) -> tuple[tuple[str, str, Any], ...]:
    return tuple((field.name, field.attribute, field.kind.load) for field in fields_of(described_class))


def given_fields(described_class: type, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """What of a mapping differs from the defaults, in the order of the definition."""
    given: dict[str, Any] = {}
    for field in fields_of(described_class):
        value = mapping.get(field.name)
        if field.kind.inside and isinstance(value, Mapping):
            value = given_fields(field.kind.inside, value)
        default = mapping.get(field.like) if field.like else field.plain_default
        if value not in (None, "", [], {}, default):
            given[field.name] = value
    return given


def schema_of(described_class: type) -> dict[str, Any]:
    """The JSON schema of the mapping."""
    properties: dict[str, Any] = {}
    for field in fields_of(described_class):
        properties[field.name] = dict(field.kind.schema)
        if field.help:
            properties[field.name]["description"] = field.help
        if not (field.kind.required or field.like or field.kind.inside or field.default is None):
            properties[field.name]["default"] = field.plain_default
    required = [field.name for field in fields_of(described_class) if field.kind.required]
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})
