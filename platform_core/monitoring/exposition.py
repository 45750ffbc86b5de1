"""Metrics as Prometheus reads them: the text format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Sample:
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""  # of a histogram: _bucket, _sum, _count


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    help: str
    kind: Kind
    samples: tuple[Sample, ...]


def histogram(bounds: Sequence[float], values: Sequence[float], labels: Mapping[str, str]) -> list[Sample]:
    """Of one set of labels; `bounds` ascending, what is beyond the last of them is counted all the same."""
    buckets = [
        Sample(sum(value <= bound for value in values), {**labels, "le": _number(bound)}, "_bucket")
        for bound in (*bounds, float("inf"))
    ]
    return [*buckets, Sample(sum(values), labels, "_sum"), Sample(len(values), labels, "_count")]


def text(families: Iterable[Family]) -> str:
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escaped(family.help, quotes=False)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [
            f"{family.name}{one.suffix}{_labels(one.labels)} {_number(one.value)}" for one in family.samples
        ]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(words: str, quotes: bool = True) -> str:
    plain = words.replace("\\", r"\\").replace("\n", r"\n")
    return plain.replace('"', r"\"") if quotes else plain


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))
