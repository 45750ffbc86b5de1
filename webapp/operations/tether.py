"""Starts one child of `trainmaster up` so that it cannot outlive its parent unseen.

    python tether.py --pid-file FILE [--user NAME] [--death-signal SIGTERM] -- command …

It writes who it is, asks the system for a signal when the parent dies (Linux), drops privileges if told to, and
becomes the command. Runs as a plain file: it must not import Django, and root's PostgreSQL passes through it.
"""

import argparse
import ctypes
import os
import pwd
import signal
import sys

import psutil

PR_SET_PDEATHSIG = 1


def write_pid_file(path: str) -> None:
    """The pid and the start time: together they name a process even after the pid was given to another."""
    with open(path, "w") as file:
        file.write(f"{os.getpid()} {psutil.Process().create_time()}\n")


def become(name: str) -> None:
    entry = pwd.getpwnam(name)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def die_with_parent(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pid-file", required=True)
    parser.add_argument("--user")
    parser.add_argument("--death-signal", default="SIGTERM")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    write_pid_file(options.pid_file)
    if options.user:
        become(options.user)
    # After the change of user, which clears it.
    die_with_parent(signal.Signals[options.death_signal].value)
    os.execvp(options.command[0], options.command)


if __name__ == "__main__":
    main()
