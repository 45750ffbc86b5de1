"""Entry of the ranks of one node: `python -m trainmaster.gang ARGS…` runs torchrun with these arguments.

With `--standby` alone it imports PyTorch, waits for a line on its standard input that says what to run (an `Order` of
`trainmaster.torchrun`), and leaves at the end of that input.

After SIGTERM torchrun kills its ranks within a time of its own: 30 seconds in every PyTorch before 2.13, whatever
grace the job has. So this process passes SIGTERM to the ranks, past torchrun, and ends torchrun when they are gone.
Whoever started this process kills what is left when the grace is over.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from trainmaster.environment import launcher_environment
from trainmaster.torchrun import Order

STANDBY = "--standby"
STANDBY_LEFT_CODE = 75  # it never had an order
LOOK_EVERY_SECONDS = 0.2
LOOKS_BEFORE_KILL = 25  # 5 s without a rank


def main(arguments: list[str]) -> int:
    # -P: a file of the job called like a standard module must not break torchrun. A group of its own: signals to
    # the group of this process do not reach it.
    torchrun = subprocess.Popen(
        [sys.executable, "-P", "-m", "trainmaster.torchrun"],
        process_group=0,
        stdin=subprocess.PIPE,
        text=True,
    )
    order = Order(arguments, launcher_environment(), os.getcwd())
    if arguments == [STANDBY]:
        awaited = _wait_for_order(torchrun)
        if awaited is None:
            torchrun.kill()
            return torchrun.wait() and STANDBY_LEFT_CODE
        order = awaited
        order.follow()
    return _run(torchrun, order)


def _wait_for_order(torchrun: subprocess.Popen[str]) -> Order | None:
    """None at the end of the input, or when torchrun has ended."""
    while torchrun.poll() is None:
        if select.select([sys.stdin], [], [], LOOK_EVERY_SECONDS)[0]:
            line = sys.stdin.readline()
            return Order.read(line) if line else None
    return None


def _run(torchrun: subprocess.Popen[str], order: Order) -> int:
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    assert torchrun.stdin is not None
    with contextlib.suppress(BrokenPipeError), torchrun.stdin as orders:  # it has ended: its code says so
        orders.write(f"{order.text}\n")
    signalled: set[int] = set()
    looks_without_ranks = 0
    while True:
        try:
            code = torchrun.wait(LOOK_EVERY_SECONDS)
            return 128 - code if code < 0 else code
        except subprocess.TimeoutExpired:
            if not stopping:
                continue
            looks_without_ranks = 0 if _signal_ranks(torchrun.pid, signalled) else looks_without_ranks + 1
            if looks_without_ranks > LOOKS_BEFORE_KILL:
                torchrun.kill()  # it waits in C++ for the torchrun of another node, where it hears no signal
            elif looks_without_ranks:
                torchrun.terminate()


def _signal_ranks(torchrun: int, signalled: set[int]) -> set[int]:
    """Sends SIGTERM to each rank once. Returns the ranks that are left: children of the server that forks them."""
    ranks = {rank for server in _children(torchrun) for rank in _children(server)}
    for rank in ranks - signalled:
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(rank) == rank:  # it leads a session of its own; not yet, while it begins
                os.killpg(rank, signal.SIGTERM)
            else:
                os.kill(rank, signal.SIGTERM)
    signalled |= ranks
    return ranks


def _children(parent: int) -> set[int]:
    """Living children. The SDK has no psutil."""
    children = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, ppid = Path(entry.path, "stat").read_text().rpartition(")")[2].split()[:2]
                if int(ppid) == parent and state not in "ZX":
                    children.add(int(entry.name))
    return children


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
