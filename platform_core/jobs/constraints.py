"""Constraints on the nodes that a job may run on."""

from __future__ import annotations

import re
from typing import NamedTuple

from platform_core.jobs.reader import Reader, shown

MAX_NAMES = 50  # labels, tolerations or nodes
WORD = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}"  # a label's name or value, a taint


class Constraints(NamedTuple):
    """A tuple, because the scheduler compares them thousands of times a round."""

    labels: tuple[tuple[str, str], ...] = ()  # all of these a node must have; ordered by name
    tolerations: tuple[str, ...] = ()  # taints that do not keep the job away
    max_racks: int = 0  # over how many racks it may spread; 0 is any number
    excluded_nodes: tuple[str, ...] = ()  # ids or hostnames


ANYWHERE = Constraints()
SPOT = "spot"  # the label (with "yes") and the taint of nodes that may be taken away at short notice


def is_word(text: str) -> bool:
    return re.fullmatch(WORD, text, re.ASCII) is not None


def labels(read: Reader) -> tuple[tuple[str, str], ...]:
    pairs = read.pairs("node_labels")
    if len(pairs) > MAX_NAMES:
        read.say("node_labels", f"has {len(pairs)} labels; the limit is {MAX_NAMES}")
    sound: list[tuple[str, str]] = []
    for name, value in pairs:
        if isinstance(value, str) and is_word(name) and is_word(value):
            sound.append((name, value))
        else:
            rule = "name and value are one word each, such as nvlink: yes"
            read.refuse(f"node_labels.{name}", f"label {shown(name)}: {shown(value)}; {rule}")
    return tuple(sound)


def tolerations(read: Reader) -> tuple[str, ...]:
    return _words(read, "tolerations", "a taint is one word, such as maintenance")


def excluded_nodes(read: Reader) -> tuple[str, ...]:
    return _words(read, "excluded_nodes", "name a node by its hostname or id")


def _words(read: Reader, field: str, remedy: str) -> tuple[str, ...]:
    words = read.words(field)
    if len(words) > MAX_NAMES:
        read.say(field, f"has {len(words)} names; the limit is {MAX_NAMES}")
    for word in words:
        if not is_word(word):
            read.say(field, f"names {shown(word)}; {remedy}")
    return tuple(sorted(words))
