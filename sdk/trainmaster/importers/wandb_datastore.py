"""The file `run-ID.wandb` of a W&B run: LevelDB's log of protobuf records, of which the few fields that count are read.

Tested with files of wandb 0.31; the format has had this header since 0.10.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_HEADER = b":W&B\xe1\xbe\x00"
_BLOCK, _HEAD = 32 * 1024, struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4  # kinds of pieces
_HISTORY, _SUMMARY, _CONFIG, _RUN, _EXIT = 2, 3, 5, 17, 18  # fields of Record
_VALUE_JSON = 16  # of an item of history, config and summary

Message = dict[int, list[int | bytes]]


class NotADatastore(Exception):
    """The file does not begin as one of W&B does."""


@dataclass(slots=True)
class RunFacts:
    """Of the record that a run begins with; later ones replace it."""

    id: str = ""
    project: str = ""
    group: str = ""
    job_type: str = ""
    name: str = ""
    notes: str = ""
    tags: list[str] = field(default_factory=list)
    host: str = ""
    started_ms: int | None = None


@dataclass(slots=True)
class Datastore:
    run: RunFacts = field(default_factory=RunFacts)
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    is_damaged: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


def read(data: bytes) -> Datastore:
    """All of the file. A half-written or damaged end is left out. Raises NotADatastore."""
    if not data.startswith(_HEADER):
        raise NotADatastore
    store = Datastore()
    try:
        for record in _records(data):
            _take(store, _message(record))
    except (ValueError, IndexError, struct.error, UnicodeDecodeError):
        store.is_damaged = True
    return store


def _records(data: bytes) -> Iterator[bytes]:
    position, parts = len(_HEADER), list[bytes]()
    while position + _HEAD.size <= len(data):
        left = _BLOCK - position % _BLOCK
        if left < _HEAD.size:  # a block ends with zeros where no head fits
            position += left
            continue
        _, length, kind = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        if kind not in (_FULL, _FIRST, _MIDDLE, _LAST) or position + length > len(data):
            raise ValueError
        if kind in (_FULL, _FIRST):
            parts = []
        parts.append(data[position : position + length])
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
        position += length


def _take(store: Datastore, record: Message) -> None:
    for kind, values in record.items():
        for value in values:
            if not isinstance(value, bytes):
                continue
            match kind:
                case _ if kind == _HISTORY:
                    store.history.append(_items(value))
                case _ if kind == _SUMMARY:
                    store.summary |= _items(value)
                case _ if kind == _CONFIG:
                    store.config |= _items(value)
                case _ if kind == _RUN:
                    _take_run(store, _message(value))
                case _ if kind == _EXIT:
                    codes = _message(value).get(1, [0])
                    store.exit_code = codes[-1] if isinstance(codes[-1], int) else 0


def _take_run(store: Datastore, run: Message) -> None:
    store.run = RunFacts(
        id=_text(run, 1), project=_text(run, 3), group=_text(run, 6), job_type=_text(run, 7), name=_text(run, 8),
        notes=_text(run, 9), tags=[tag.decode() for tag in run.get(10, []) if isinstance(tag, bytes)],
        host=_text(run, 13), started_ms=_milliseconds(run),
    )  # fmt: skip
    for config in run.get(4, []):
        if isinstance(config, bytes):
            store.config |= _items(config)


def _milliseconds(run: Message) -> int | None:
    for time in run.get(17, []):
        if isinstance(time, bytes):
            parts = _message(time)
            seconds, nanoseconds = parts.get(1, [0])[-1], parts.get(2, [0])[-1]
            if isinstance(seconds, int) and isinstance(nanoseconds, int):
                return seconds * 1000 + nanoseconds // 1_000_000
    return None


def _items(data: bytes) -> dict[str, Any]:
    """Of history, config or summary. Nested names become one with slashes between, as the pages of W&B show them with
    dots: `val.acc` there is `val/acc` here."""
    values: dict[str, Any] = {}
    for item in _message(data).get(1, []):
        if not isinstance(item, bytes):
            continue
        fields = _message(item)
        names = [name.decode() for name in fields.get(2, []) if isinstance(name, bytes)] or [_text(fields, 1)]
        place = values
        for name in names[:-1]:
            inner = place.setdefault(name, {})
            place = inner if isinstance(inner, dict) else {}
        place[names[-1]] = _value(_text(fields, _VALUE_JSON) or "null")
    return values


def _value(text: str) -> Any:
    """One value that cannot be read, such as a number of thousands of digits, is text and costs no other."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(message: Message, number: int) -> str:
    values = message.get(number, [])
    return values[-1].decode() if values and isinstance(values[-1], bytes) else ""


def _message(data: bytes) -> Message:
    """The fields of a protobuf message: whole numbers, and bytes of what is inside."""
    fields: Message = {}
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value: int | bytes
            value, position = _varint(data, position)
        else:
            length, position = {1: (8, position), 5: (4, position)}.get(kind) or _varint(data, position)
            if kind not in (1, 2, 5) or position + length > len(data):
                raise ValueError
            value = data[position : position + length]
            position += length
        fields.setdefault(number, []).append(value)
    return fields


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError
