"""Entry of one rank: `python -m trainmaster.rank SCRIPT ARGS…` or `… -m MODULE ARGS…`, or `forked`.

torchrun starts it once a slot. It sends its output to the log of its rank, runs the script as `python SCRIPT`
would, and leaves behind its process id and how it ended, for the agent. SIGUSR1 has it dump its stacks.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import json
import multiprocessing
import multiprocessing.process
import os
import runpy
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from trainmaster.environment import JobEnvironment, job_environment, launcher_environment, replace_environment

USAGE_CODE = 2
_server_environment: Mapping[str, str] = {}  # of the process that forks ranks


def main(arguments: list[str]) -> int:
    if not arguments or arguments == ["-m"]:
        sys.stderr.write("usage: python -m trainmaster.rank SCRIPT ARGS… | -m MODULE ARGS…\n")
        return USAGE_CODE
    surroundings = job_environment()
    if surroundings.folder is not None:
        _leave_behind(surroundings, "pid", str(os.getpid()))
        _redirect(surroundings.folder / "logs" / f"rank-{surroundings.rank}.log")
        _dump_stacks_on_signal(surroundings.folder / "stacks" / f"rank-{surroundings.rank}.txt")
    faulthandler.enable()  # a crash in native code leaves its stack in the log
    code, error = _run(arguments)
    _flush()
    if surroundings.folder is not None:
        _leave_behind(surroundings, "exit", json.dumps({"exit_code": code, "error": error}))
    return code


def remember_environment() -> None:
    """In the server that forks ranks, before the first of them."""
    global _server_environment
    _server_environment = launcher_environment()


def forked(environment: Mapping[str, str], words: Sequence[str]) -> None:
    """Runs the script in a process that was forked after its imports; returns only if it ended with exit code 0.

    `environment` is that of the launcher. What torchrun tells this rank beside it stands in os.environ already.
    """
    os.setsid()  # as torchrun gives it to ranks that it starts as programs
    of_rank = {
        name: value
        for name, value in launcher_environment().items()
        if _server_environment.get(name) != value
    }
    replace_environment({**environment, **of_rank})
    tempfile.tempdir = None  # found anew
    multiprocessing.current_process().name = "MainProcess"
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]  # where its spawned workers find the script
    if (numbers := sys.modules.get("numpy.random")) is not None:
        numbers.seed()  # all ranks have one generator otherwise
    code = main(list(words))
    _finish()
    if code:
        os._exit(code)


def _redirect(log: Path) -> None:
    """Both streams, for this process and all it starts. O_APPEND, so that the agent may shorten the file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    _flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        # Line by line, so that the page has it within a second.
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]


def _dump_stacks_on_signal(file: Path) -> None:
    """SIGUSR1 appends the stacks of all threads, also where the main thread waits in native code."""
    if not hasattr(signal, "SIGUSR1"):
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(exist_ok=True)
        # faulthandler needs the descriptor as long as the process lives.
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        faulthandler.register(signal.SIGUSR1, file=descriptor, all_threads=True)


def _run(arguments: list[str]) -> tuple[int, str]:
    """The exit code that `python` would give, and the error in one line."""
    try:
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            _find_modules_in(Path.cwd())
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            _find_modules_in(Path(arguments[0]).resolve().parent)
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as leaving:
        return _code_of(leaving)
    except BaseException as error:
        _show(error)
        return 130 if isinstance(error, KeyboardInterrupt) else 1, _one_line(error)
    return 0, ""


def _find_modules_in(folder: Path) -> None:
    """As `python SCRIPT` does: the first place to look in."""
    if sys.flags.safe_path:
        sys.path.insert(0, str(folder))
    else:  # there stands the folder that `python -m trainmaster.rank` was called in
        sys.path[0] = str(folder)


def _code_of(leaving: SystemExit) -> tuple[int, str]:
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0, ""
    sys.stderr.write(f"{leaving.code}\n")
    return 1, f"SystemExit: {leaving.code}"


def _show(error: BaseException) -> None:
    """The traceback without the lines of this file and of runpy, which say nothing about the script."""
    frames = error.__traceback__
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while frames is not None and frames.tb_frame.f_code.co_filename in ours:
        frames = frames.tb_next
    traceback.print_exception(error.with_traceback(frames or error.__traceback__))


def _one_line(error: BaseException) -> str:
    """The line that begins with the exception: a SyntaxError has its code before it, others have more text after it."""
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    return next((line for line in lines if type(error).__name__ in line.partition(":")[0]), lines[-1])


def _leave_behind(surroundings: JobEnvironment, name: str, text: str) -> None:
    assert surroundings.folder is not None
    file = surroundings.folder / "ranks" / f"rank-{surroundings.rank}.{name}"
    temporary = file.with_suffix(".new")
    with contextlib.suppress(OSError):
        file.parent.mkdir(exist_ok=True)
        temporary.write_text(text)
        temporary.rename(file)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def leave(code: int) -> NoReturn:
    """Ends as the interpreter would, without taking it apart.

    A thread of gloo that lets go of its last tensor while the interpreter is taken apart aborts the process, so that a
    rank whose work was done would count as killed by SIGABRT.
    """
    _finish()
    os._exit(code)


def _finish() -> None:
    threading._shutdown()  # type: ignore[attr-defined]  # waits for a save in flight
    atexit._run_exitfuncs()
    _flush()


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
