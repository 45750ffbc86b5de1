"""Metrics in sections by the prefix of their name, in the order in which people look at them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# What the model does comes before how fast it does it, and the machine comes last. Unknown prefixes stand in between.
_FIRST = ("train", "training", "", "val", "valid", "validation", "eval", "heldout", "test")
_LAST = (
    "optim",
    "optimizer",
    "grad",
    "gradients",
    "perf",
    "performance",
    "time",
    "timing",
    "throughput",
    "system",
)
_FIRST_METRICS = ("loss", "train_loss", "bits_per_byte", "heldout_bits_per_byte", "heldout_loss", "val_loss",
                  "accuracy", "acc", "f1", "perplexity", "lr")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Section:
    """`name` is the prefix without its slash; "" for metrics without one."""

    name: str
    keys: tuple[str, ...]


def section_of(key: str) -> str:
    prefix, slash, rest = key.partition("/")
    return prefix if slash and rest else ""


def in_sections(keys: Iterable[str]) -> tuple[Section, ...]:
    """Every key stands in exactly one section."""
    by_section: dict[str, list[str]] = {}
    for key in keys:
        by_section.setdefault(section_of(key), []).append(key)
    return tuple(
        Section(name, tuple(sorted(set(by_section[name]), key=_order_of_key)))
        for name in sorted(by_section, key=_order_of_section)
    )


def in_order(keys: Iterable[str]) -> list[str]:
    return [key for section in in_sections(keys) for key in section.keys]


def _order_of_section(name: str) -> tuple[int, int, str]:
    word = name.lower()
    if word in _FIRST:
        return (0, _FIRST.index(word), word)
    if word in _LAST:
        return (2, _LAST.index(word), word)
    return (1, 0, word)


def _order_of_key(key: str) -> tuple[int, str]:
    names = (key, key.replace(".", "/").rpartition("/")[2])
    place = min(
        _FIRST_METRICS.index(name) if name in _FIRST_METRICS else len(_FIRST_METRICS) for name in names
    )
    return (place, key)
