"""Runs the programs of one platform side by side with honcho: prefixed lines, a log file each, all or none."""

import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import honcho.manager
from honcho.printer import Message, Printer

from webapp.operations.programs import ROOT, Program, runnable
from webapp.operations.tether import die_with_parent

TETHER = Path(__file__).with_name("tether.py")
# How long all of them together may take to stop before the rest is killed; honcho's own five seconds cut the
# worker off in the middle of a task.
honcho.manager.KILL_WAIT = 10
LOG_BYTES = 32 << 20  # of each program; the file before it is kept, too
ENDED = re.compile(r"(?P<name>[\w-]+) stopped \(rc=(?P<code>-?\d+)\)")


class LogPrinter(Printer):
    """Prints prefixed lines, keeps each program's own lines in its log file, and notes who ended first."""

    def __init__(self, folder: Path, quiet: bool, announcer: str) -> None:
        super().__init__(sys.stdout)
        self._folder = folder
        self._quiet = quiet
        self._announcer = announcer
        self._files: dict[str, IO[bytes]] = {}
        self.first_ended: tuple[str, int] | None = None

    def write(self, message: Message) -> None:
        if message.name == honcho.manager.SYSTEM_PRINTER_NAME:
            ended = ENDED.match(message.data)
            if ended and self.first_ended is None:
                self.first_ended = (ended["name"], int(ended["code"]))
            self._keep("supervisor", message.data.encode())
            return
        self._keep(message.name, message.data)
        if message.name == self._announcer:
            print(message.data.decode(errors="replace"), end="", flush=True)
        elif not self._quiet:
            super().write(message)

    def _keep(self, name: str, line: bytes) -> None:
        if name not in self._files:
            self._files[name] = (self._folder / f"{name}.log").open("ab", buffering=0)
        file = self._files[name]
        file.write(line)
        if file.tell() > LOG_BYTES:
            path = self._folder / f"{name}.log"
            path.replace(path.with_suffix(".log.1"))
            file.close()
            del self._files[name]


def supervise(
    programs: Sequence[Program], environment: Mapping[str, str], run: Path, printer: LogPrinter
) -> tuple[str, int] | None:
    """Until a signal asks for the end (None), or until one of them ends by itself (its name and exit code)."""
    # honcho gives each program a reader process forked from us, which ignores our signals: it must go when we do.
    os.register_at_fork(after_in_child=lambda: die_with_parent(signal.SIGKILL))
    manager = honcho.manager.Manager(printer)
    for program in programs:
        tether = [sys.executable, str(TETHER), "--pid-file", str(run / f"{program.name}.pid"), "--"]
        manager.add_process(
            program.name,
            "exec " + shlex.join([*tether, *runnable(program.command)]),
            env=os.environ | dict(environment) | program.environment,
            cwd=str(ROOT),
        )
    manager.loop()
    asked_to_end = manager.returncode in {130, 143} and printer.first_ended is not None
    return None if asked_to_end else printer.first_ended
