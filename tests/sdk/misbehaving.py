"""Parsers as they should not be, for the processes that run them."""

import os
import sys
from typing import Any


def aborts(_: bytes) -> None:
    os.abort()


def dies(_: bytes, *, by: int) -> None:
    os.kill(os.getpid(), by)


def exits(_: bytes) -> None:
    os._exit(3)


def computes_for_ever(_: bytes) -> None:
    while True:
        pass


def waits_for_ever(_: bytes) -> None:
    os.read(os.pipe()[0], 1)


def takes_all_memory(_: bytes) -> int:
    return len([bytearray(64 * 2**20) for _ in range(1000)])


def says_much(_: bytes) -> str:
    return "x" * 2**20


def recurses(_: bytes) -> None:
    recurses(_)


def refuses(_: bytes) -> None:
    raise ValueError("byte 7 is no length \udcff")


def lacks(_: bytes) -> None:
    import no_such_library  # type: ignore[import-not-found] # noqa: F401


def prints(_: bytes) -> str:
    print("not an answer")
    print("neither", file=sys.stderr)
    return "answer"


def surroundings(_: bytes) -> dict[str, Any]:
    return {
        "process": os.getpid(),
        "environment": sorted(os.environ),
        "open": sorted(os.readlink(f"/proc/self/fd/{name}").partition(":")[0] for name in os.listdir("/proc/self/fd")
                       if os.path.exists(f"/proc/self/fd/{name}")),
    }  # fmt: skip


def length(data: bytes) -> int:
    return len(data)
