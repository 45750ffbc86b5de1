"""Readers of the fields that need more than a type and bounds: one function a field."""

from __future__ import annotations

import math
import posixpath
import re
import shlex
from enum import StrEnum

from platform_core.jobs.reader import Reader, Text, shown
from platform_core.units import TIB, format_bytes, parse_bytes

Scalar = str | int | float | bool

MAX_TAGS = 20
MAX_PAIRS = 200  # hyperparameters, and environment names
MAX_ENVIRONMENT_BYTES = 32 * 1024
MAX_COMMAND_BYTES = 64 * 1024
MAX_MEMORY = 16 * TIB
RESERVED = "TRAINMASTER_"

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

PATH = Text(200)


def command(read: Reader) -> tuple[str, ...]:
    value = read.value("command")
    words: list[str] = []
    if isinstance(value, str) and len(value) > MAX_COMMAND_BYTES:  # before it is split, which takes its time
        words = [value]
    elif isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError as error:
            read.say("command", f"is {shown(value)}, which cannot be split into words: {error}")
            return ()
    elif isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        words = list(value)
    elif value is not None:
        read.say("command", f"is {shown(value)}; it must be text or a list of texts")
        return ()
    size = sum(len(word.encode(errors="replace")) + 1 for word in words)
    if not words or not words[0].strip():
        note = " (an image alone does not say what to train)" if read.value("container_image") else ""
        read.say("command", f"is empty{note}; say what to run, such as python train.py")
    elif size > MAX_COMMAND_BYTES:
        read.say("command", f"has {format_bytes(size)}; the limit is {format_bytes(MAX_COMMAND_BYTES)}")
    elif not all(_storable(word) for word in words):
        read.say("command", "has a character that no process can be given; remove it")
    return tuple(words)


def environment(read: Reader) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for name, value in read.pairs("environment"):
        field = f"environment.{name}"
        _check_environment_name(read, field, name)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            read.say(field, f"is {shown(value)}; it must be text: put it in quotes")
        elif not _storable(str(value)):
            read.say(field, "has a character that no process can be given; remove it")
        else:
            pairs.append((name, str(value)))
    size = sum(len(name.encode(errors="replace")) + len(value.encode()) + 2 for name, value in pairs)
    if len(pairs) > MAX_PAIRS:
        read.say("environment", f"has {len(pairs)} names; the limit is {MAX_PAIRS}")
    if size > MAX_ENVIRONMENT_BYTES:
        limit = format_bytes(MAX_ENVIRONMENT_BYTES)
        read.say("environment", f"has {format_bytes(size)}; the limit is {limit}: put the rest in a file")
    return tuple(pairs)


def secrets(read: Reader) -> tuple[str, ...]:
    names = read.words("secrets")
    if len(names) > MAX_PAIRS:
        read.say("secrets", f"has {len(names)} names; the limit is {MAX_PAIRS}")
    for name in names:
        _check_environment_name(read, "secrets", name)
    return names


def memory(read: Reader, name: str, default: int) -> int:
    value = read.value(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, str | int):
        read.say(name, f"is {shown(value)}; write a size such as 8GiB")
        return default
    try:
        size = parse_bytes(value)
    except ValueError as error:
        read.refuse(name, f"{read.label(name)}: {error}")
        return default
    if not 0 <= size <= MAX_MEMORY:
        read.say(name, f"is {shown(value)}; it must be from 0 to {format_bytes(MAX_MEMORY)}")
        return default
    return size


def choice(read: Reader, name: str, options: type[StrEnum], default: StrEnum) -> StrEnum:
    value = read.value(name)
    if value is None:
        return default
    try:
        return options(str(value))
    except ValueError:
        read.say(name, f"is {shown(value)}; it must be one of {', '.join(options)}")
        return default


def checkpoint_path(read: Reader, name: str, default: str) -> str:
    """A folder inside the work folder of the attempt, in its shortest writing."""
    path = read.text(name, PATH)
    if not path:
        return default
    if path.startswith(("/", "~")) or "\\" in path or ".." in path.split("/"):
        read.say(name, f"is {shown(path)}; it must be relative, with / and without ..")
        return default
    return posixpath.normpath(path)


def hyperparameters(read: Reader) -> tuple[tuple[str, Scalar], ...]:
    pairs: list[tuple[str, Scalar]] = []
    for name, value in read.pairs("hyperparameters"):
        field = f"hyperparameters.{name}"
        if not 0 < len(name) <= 120 or not name.isprintable():
            read.refuse(field, f"hyperparameter {shown(name)}: a name is one line of 1 to 120 characters")
        elif not isinstance(value, str | int | float):
            remedy = "; write a nested one flat, such as optimizer.lr" if isinstance(value, dict) else ""
            read.say(field, f"is {shown(value)}; it must be text, a number, true or false{remedy}")
        elif isinstance(value, float) and not math.isfinite(value):
            read.say(field, f"is {value}; it must be a finite number")
        elif isinstance(value, int) and abs(value) >= 2**63:
            read.say(field, f"is {shown(value)}; a whole number must fit into 64 bits, or be written as text")
        elif isinstance(value, str) and (len(value) > 1_000 or not _storable(value)):
            read.say(field, f"has {len(value)} characters; it must be plain text of at most 1000")
        else:
            pairs.append((name, value))
    if len(pairs) > MAX_PAIRS:
        read.say("hyperparameters", f"has {len(pairs)} names; the limit is {MAX_PAIRS}")
    return tuple(pairs)


def tags(read: Reader) -> tuple[str, ...]:
    words = read.words("tags")
    if len(words) > MAX_TAGS:
        read.refuse("tags", f"there are {len(words)} tags; the limit is {MAX_TAGS}")
    for word in words:
        if not 0 < len(word) <= 60 or not word.isprintable() or not word.strip():
            read.refuse("tags", f"tag {shown(word)}: a tag is one line of 1 to 60 characters")
    return words


def _check_environment_name(read: Reader, field: str, name: str) -> None:
    if len(name) > 200 or not _ENVIRONMENT_NAME.fullmatch(name):
        rule = "a name is letters, digits and _, begins with no digit and has at most 200 characters"
        read.refuse(field, f"{shown(name)} cannot name an environment variable; {rule}")
    elif name.startswith(RESERVED):
        read.refuse(field, f"{name} begins with {RESERVED}, as the platform's own do; choose another name")


def _storable(text: str) -> bool:
    """Neither a database nor a process takes a NUL or half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
