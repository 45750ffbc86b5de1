"""Values of `platform_core.node` to protobuf messages and back.

One rule a type, compiled from the fields of value and message, which have the same names: a new field is written in the
value and in the .proto file, and nowhere here. A field that only one of them has stops the import.

- A field of a message that is absent (a message, or `optional`) has the default of the value's field, if there is one.
- Members of an enum have the same names, in capitals here. A member that this version does not know becomes the default
  of the value's field; where there is none, the row of that message is left out.
- Texts by name become a map, a list of lists becomes messages with one repeated field.

Nothing is checked here beyond what protobuf checks: the gateway brings what nodes say into its bounds itself.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from platform_core.distribution.deployments.sharing import Share
from platform_core.jobs.corruption_check import CorruptionCheck
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.parallel import Parallel
from platform_core.jobs.roles import Role
from platform_core.jobs.spec import CheckpointPolicy
from platform_core.jobs.stacks import RankStack
from platform_core.node import description, observed, wanted
from trainmaster_wire.agent.v1 import enrolment_pb2, session_pb2

T = TypeVar("T")

# By value the message, or the enum; what a value refers to stands before it.
MESSAGES: dict[type, Any] = {
    wanted.ArtifactReference: session_pb2.ArtifactReference,
    CheckpointPolicy: session_pb2.CheckpointPolicy,
    CorruptionCheck: session_pb2.CorruptionCheck,
    Role: session_pb2.Role,
    Parallel: session_pb2.Parallel,
    wanted.Peer: session_pb2.Peer,
    Share: session_pb2.Share,
    wanted.DeploymentWanted: session_pb2.DeploymentWanted,
    wanted.Launch: session_pb2.Launch,
    wanted.ProfileOrder: session_pb2.ProfileOrder,
    wanted.AttemptWanted: session_pb2.AttemptWanted,
    wanted.ActivationWanted: session_pb2.ActivationWanted,
    wanted.MendWanted: session_pb2.MendWanted,
    wanted.Wanted: session_pb2.Wanted,
    RankStack: session_pb2.RankStack,
    observed.StacksObserved: session_pb2.StacksObserved,
    observed.HangObserved: session_pb2.HangObserved,
    observed.StartPhase: session_pb2.StartPhase,
    observed.AttemptObserved: session_pb2.AttemptObserved,
    observed.DeploymentObserved: session_pb2.DeploymentObserved,
    observed.ActivationObserved: session_pb2.ActivationObserved,
    observed.Observed: session_pb2.Observed,
    description.SlotDescription: enrolment_pb2.SlotDescription,
    description.NodeDescription: enrolment_pb2.NodeDescription,
    description.SlotTelemetry: session_pb2.SlotTelemetry,
    description.Telemetry: session_pb2.Telemetry,
}
# Fields and members of an enum that never leave their program.
LOCAL: dict[type, frozenset[str]] = {
    observed.AttemptObserved: frozenset({"stopping"}),
    observed.DeploymentObserved: frozenset({"acting_on"}),
    MemberPhase: frozenset({"ASSIGNED", "LOST"}),  # the platform's alone
}


def to_wire(value: Any) -> Any:
    """The message of a value."""
    return _CODECS[type(value)].encode(value)


def from_wire(kind: type[T], message: Message) -> T:
    """The value of a message. Raises UnknownMember for an enum's member that nothing stands in for."""
    found: T = _CODECS[kind].decode(message)
    return found


class UnknownMember(ValueError):
    """The message has a member of an enum that this version does not know."""


class _Rule(NamedTuple):
    """None where both sides have the same value."""

    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None


class _Field(NamedTuple):
    name: str
    default: Any  # MISSING: it has none
    may_be_absent: bool
    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None


class _Codec:
    def __init__(self, value: type, message: Any) -> None:
        hints, by_name = get_type_hints(value), message.DESCRIPTOR.fields_by_name
        sent = [field for field in fields(value) if field.name not in LOCAL.get(value, ())]
        if odd := {field.name for field in sent} ^ set(by_name):
            raise TypeError(f"only one of {value.__name__} and its message has {', '.join(sorted(odd))}")
        self._value, self._message = value, message
        self._fields = [
            _Field(
                field.name,
                field.default if field.default_factory is MISSING else field.default_factory(),
                by_name[field.name].has_presence,
                *_rule(hints[field.name], by_name[field.name]),
            )
            for field in sent
        ]

    def encode(self, value: Any) -> Any:
        found = {}
        for name, default, may_be_absent, encode, _ in self._fields:
            content = getattr(value, name)
            if may_be_absent and content == default:
                continue
            found[name] = content if encode is None else encode(content)
        return self._message(**found)

    def decode(self, message: Any) -> Any:
        found = {}
        for name, default, may_be_absent, _, decode in self._fields:
            if may_be_absent and default is not MISSING and not message.HasField(name):
                continue
            content = getattr(message, name)
            if decode is not None:
                try:
                    content = decode(content)
                except UnknownMember:
                    if default is MISSING:
                        raise
                    continue
            found[name] = content
        return self._value(**found)


def _rule(hint: Any, field: Any) -> _Rule:
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _Rule(dict, dict if get_origin(hint) is Mapping else _pairs)
    if not field.is_repeated:
        return _single(hint, field)
    container, (item, *_) = get_origin(hint), get_args(hint)
    encode, decode = _single(item, field)
    if decode is None:
        return _Rule(sorted if container is frozenset else tuple, container)
    if encode is None:
        raise TypeError(f"{field.full_name} has no rule")
    return _Rule(lambda items: [encode(each) for each in items], lambda rows: tuple(_known(decode, rows)))


def _single(hint: Any, field: Any) -> _Rule:
    if isinstance(hint, type) and is_dataclass(hint):
        codec = _CODECS[hint]
        return _Rule(codec.encode, codec.decode)
    if get_origin(hint) is tuple:
        ((inner),) = field.message_type.fields
        message, name = GetMessageClass(field.message_type), inner.name
        return _Rule(lambda items: message(**{name: items}), lambda row: tuple(getattr(row, name)))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _enum(hint, field.enum_type)
    return _Rule()


def _enum(kind: type[StrEnum], numbers: Any) -> _Rule:
    members = {member: member.name for member in kind if member.name not in LOCAL.get(kind, ())}
    by_number = {each.number: each.name for each in numbers.values if each.number}
    if odd := set(members.values()) ^ set(by_number.values()):
        raise TypeError(f"only one of {kind.__name__} and its message has {', '.join(sorted(odd))}")
    encoded = {member: numbers.values_by_name[name].number for member, name in members.items()}
    decoded = {number: member for member, number in encoded.items()}

    def decode(number: int) -> StrEnum:
        try:
            return decoded[number]
        except KeyError:
            raise UnknownMember(f"{number} is no {kind.__name__} that this version knows") from None

    return _Rule(encoded.__getitem__, decode)


def _pairs(texts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(texts.items()))


def _known(decode: Callable[[Any], Any], rows: Any) -> Any:
    for row in rows:
        try:
            yield decode(row)
        except UnknownMember:
            continue


_CODECS: dict[type, _Codec] = {}
for _value, _message in MESSAGES.items():
    _CODECS[_value] = _Codec(_value, _message)
