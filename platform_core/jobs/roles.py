"""The roles of a gang: named groups of processes, each with a command of its own where it needs one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from platform_core.jobs.kinds import Kind
from platform_core.jobs.reader import Reader, shown
from platform_core.units import plural

MAX_ROLES = 20
MAX_PROCESSES = 10_000
MAX_LENGTH = 4_000  # of a number of processes and a command
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,29}", re.ASCII)
_REMEDY = "give the number of its processes, and a command where it has its own: 1 python server.py"


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    count: int  # of processes; each takes one slot
    command: tuple[str, ...] = ()  # (): the job's


def roles() -> Kind:
    """`{ps: 1 python server.py, worker: 3}`, ordered by name, which is also the order of the ranks."""
    value = {"oneOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}
    schema = {"type": "object", "additionalProperties": value, "maxProperties": MAX_ROLES}
    return Kind(lambda reader, name, default: _read(reader, name), schema, _load, _plain)


def _read(read: Reader, name: str) -> tuple[Role, ...]:
    pairs = read.pairs(name)
    if len(pairs) > MAX_ROLES:
        read.say(name, f"has {len(pairs)} names; the limit is {MAX_ROLES}")
        return ()
    return tuple(role for role in (_role(read, name, *pair) for pair in pairs) if role is not None)


def _role(read: Reader, parent: str, name: str, value: object) -> Role | None:
    field = f"{parent}.{name}"
    if not _NAME.fullmatch(name):
        rule = "it is 1 to 30 small letters, digits, - and _, and begins with a letter"
        read.refuse(field, f"{shown(name)} cannot name a role; {rule}")
        return None
    try:
        count, command = _parts(value)
    except ValueError:
        read.say(field, f"is {shown(value)}; {_REMEDY}")
        return None
    if not 1 <= count <= MAX_PROCESSES:
        read.say(field, f"has {count} processes; it must have 1 to {MAX_PROCESSES:,}")
        return None
    return Role(name, count, command)


def _parts(value: object) -> tuple[int, tuple[str, ...]]:
    """A number, `COUNT COMMAND…`, or a mapping of both. ValueError for anything else."""
    if isinstance(value, Mapping) and set(value) <= {"count", "command"}:
        command = value.get("command", "")
        text = shlex.join(command) if isinstance(command, list) else str(command)
        value = f"{value.get('count', '')} {text}"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    if len(str(value)) > MAX_LENGTH or not str(value).isprintable():
        raise ValueError
    count, *command = shlex.split(str(value)) or [""]
    return int(count), tuple(command)


def check(read: Reader, num_gpus: int, min_gpus: int, roles: tuple[Role, ...], by_roles: bool) -> None:
    """The roles take the slots of the gang, all of them and always."""
    label = read.label
    if by_roles and not roles and read.sound("roles"):
        read.say("roles", "is missing for the strategy roles; name the groups, such as ps=1 and worker=3")
    if roles and not by_roles:
        read.say(
            "strategy", f"must be roles for a job with {label('roles')}; choose it, or leave the roles out"
        )
    count = sum(role.count for role in roles)
    if roles and read.sound("num_gpus", "roles") and count != num_gpus:
        sentence = (
            f"ask for {plural(count, 'slot')}, one for each process, but {label('num_gpus')} is {num_gpus}"
        )
        read.say("roles", f"{sentence}; make them equal")
    elif roles and read.sound("min_gpus", "num_gpus") and min_gpus != num_gpus:
        fixed = f"is {min_gpus}, but the roles need all {num_gpus}"
        read.say("min_gpus", f"{fixed}; leave {label('min_gpus')} out")


def _load(value: Any) -> tuple[Role, ...]:
    if type(value) is not dict:
        raise TypeError(f"{value!r} is not a mapping of roles")
    return tuple(Role(name, *_parts(text)) for name, text in sorted(value.items()))


def _plain(roles: tuple[Role, ...]) -> dict[str, int | str]:
    return {
        role.name: f"{role.count} {shlex.join(role.command)}" if role.command else role.count
        for role in roles
    }
