"""Records of TensorBoard's event files as lines of the spool. Runs in a reader process alone: a job wrote the records,
and what parses protobuf and tensors may be made to end, or to take memory without end."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any

from agent.uplink.events import LONGEST_LINE, LONGEST_NAME, MOST_VALUES
from trainmaster.event_files.reading import Scalar, Value, values_of
from trainmaster.event_files.records import whole_records
from trainmaster.event_files.rich import rich_fields


def parsed(data: bytes, *, prefix: str, plugins: dict[str, str]) -> dict[str, Any]:
    """The lines of the whole records at the beginning of these bytes; `plugins`, as `values_of` has it, comes back."""
    records = whole_records(data)
    values = (value for record in records.data for value in values_of(record, plugins))
    return {
        "lines": [line.decode() for line in _lines(values, prefix)],
        "records": len(records.data),
        "length": records.length,
        "needs": records.needs,
        "is_corrupt": records.is_corrupt,
        "plugins": plugins,
    }


def _lines(values: Iterable[Value], prefix: str) -> Iterator[bytes]:
    """Scalars of one step that follow each other share a line. A value that is too long for a line is left out."""
    step, at_ms, scalars = 0, 0, dict[str, float]()
    for value in values:
        key = f"{prefix}{value.key}"[:LONGEST_NAME]
        if not isinstance(value, Scalar):
            line = _rich_line(key, value)
            if line is not None and len(line) <= LONGEST_LINE:
                yield line
            continue
        if scalars and (value.step != step or key in scalars or len(scalars) == MOST_VALUES):
            yield _line(kind="metrics", step=step, at_ms=at_ms, values=scalars)
            scalars = {}
        step, at_ms = value.step, value.at_ms
        scalars[key] = value.value
    if scalars:
        yield _line(kind="metrics", step=step, at_ms=at_ms, values=scalars)


def _rich_line(key: str, value: Value) -> bytes | None:
    fields = rich_fields(value)
    if fields is None:
        return None
    event = {"key": key, "step": value.step, "at_ms": value.at_ms, "index": fields.get("index", 0)}
    if "document" in fields:
        return _line(kind="value", type=fields["kind"], document=fields["document"], **event)
    return _line(kind="value", type=fields["kind"], data=b64encode(fields["data"]).decode(), **event)


def _line(**event: Any) -> bytes:
    return json.dumps(event).encode() + b"\n"
