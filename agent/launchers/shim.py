"""The small process that owns an attempt's processes, so that the agent may die.

Run isolated (`python -I -m agent.launchers.shim RECORDS`). It reads nothing but the attempt's two folders and the
node's lease. It takes the attempt by creating process.json (once, by link: a second shim finds it and leaves), starts
the command, adopts every orphan below it, obeys the `stop` file, ends the command before the lease runs out, and writes
exit.json when nothing is left alive.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import psutil

from agent.launchers.exits import reserve_exit, write_exit
from agent.launchers.lease import NO_LEASE, boot_ms, lease_loss, read_lease

PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
TICK_SECONDS = 0.1
MEMORY_TICK_SECONDS = 1.0
LAST_KILL_SECONDS = 20.0  # for processes that even SIGKILL does not end (stuck in the kernel)
DISK_FULL_CODE = 28  # of this process, when it cannot even begin
DEFAULT_GRACE_SECONDS = 10.0  # when somebody other than the agent sends SIGTERM
NOT_ASKED = float("inf")


class Shim:
    def __init__(
        self,
        order: dict[str, Any],
        standby: subprocess.Popen[bytes] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        """`standby` waits on its standard input for the order; it gets this environment."""
        self.folder = Path(order["folder"])
        self.order, self.standby, self.environment = order, standby, environment
        self.lease = NO_LEASE  # as it was last read
        self.cut_off_ms = (
            0  # for how long no heartbeat had been acknowledged, when this was asked to end for it
        )
        self.exit_code: int | None = None
        self.asked = False  # to stop
        self.stop_began = 0.0
        self.stop_at: float | None = None  # when the grace ends
        self.killed_after_grace = False
        self.memory_limit_hit = 0
        self.next_memory_look = 0.0
        self.command_pid = 0
        self.lease_grace = float("inf")

    def run(self) -> dict[str, Any]:
        wake = self.listen()
        self.watch_lease()
        if self.cut_off_ms:  # the order is older than the lease
            self.kill_all()  # a standby
            return {"exit_code": 143, "stopped": True, "cut_off_ms": self.cut_off_ms}
        try:
            self.command_pid = self.begin()
        except (OSError, subprocess.SubprocessError) as error:
            return {
                "exit_code": 127,
                "trouble": f'"{self.order["argv"][0]}" could not be started: {cause_of(error)}.',
            }
        while self.exit_code is None:
            select.select([wake], [], [], TICK_SECONDS)
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 512)
            self.reap()
            self.watch_lease()
            self.obey_stop()
            self.watch_memory()
        self.kill_all()
        return {
            "exit_code": self.exit_code,
            "stopped": self.stop_at is not None,
            "killed_after_grace": self.killed_after_grace,
            "memory_limit_bytes": self.memory_limit_hit or self.cgroup_oom(),
            "cut_off_ms": self.cut_off_ms,
        }

    def listen(self) -> int:
        """Signals only wake the loop; SIGTERM also leaves the `stop` file, so there is one way to stop."""
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self.ask_stop(DEFAULT_GRACE_SECONDS))
        return read

    def ask_stop(self, grace_seconds: float) -> None:
        """O_EXCL: the folder is the job's, which may have put a link there."""
        self.asked = True
        # Its own file is there, or the disk is full: then it is empty, which also means stop.
        with contextlib.suppress(OSError):
            descriptor = os.open(self.folder / "stop", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(descriptor, json.dumps({"grace_seconds": grace_seconds}).encode())
            os.close(descriptor)

    def watch_lease(self) -> None:
        """The platform starts the attempt elsewhere when this node is lost: before that, nothing may run here."""
        if not self.order["lease"]:
            return
        self.lease = read_lease(self.order["lease"]) or self.lease
        loss = lease_loss(self.lease, self.order["ordered_ms"], boot_ms())
        if loss is None:
            return
        cut_off_ms, seconds = loss
        if not self.cut_off_ms:
            self.cut_off_ms = cut_off_ms
            waited = f"no heartbeat of this node was acknowledged for {cut_off_ms // 1000} s"
            self.say(f"{waited}: this ends before it starts elsewhere")
            if self.stop_at is None:
                self.lease_grace = seconds
            self.ask_stop(seconds)
        if not seconds:
            self.lease_grace = 0.0

    def begin(self) -> int:
        """The pid of the command, which may be told by its standard input what to run (trainmaster.torchrun.Order)."""
        command = self.standby
        if command is None:
            command = spawn(self.order)
        else:
            arguments = self.order["argv"][self.order["argv"].index("-m") + 2 :]
            told = {
                "arguments": arguments,
                "environment": self.environment,
                "directory": self.order["cwd"],
                "output": self.order["output"],
            }
            assert command.stdin is not None
            with (
                contextlib.suppress(BrokenPipeError),
                command.stdin as orders,
            ):  # it has ended: `reap` sees how
                orders.write(f"{json.dumps(told)}\n".encode())
        command.returncode = 0  # reaped below; Popen must not wait for it
        return command.pid

    def reap(self) -> bool:
        """Collects every ended child, also adopted ones. False when there is none left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.command_pid:
                code = os.waitstatus_to_exitcode(status)
                self.exit_code = 128 - code if code < 0 else code

    def obey_stop(self) -> None:
        if self.exit_code is not None:
            return
        grace = min(read_stop(self.folder), self.lease_grace)
        if grace == NOT_ASKED and not self.asked:
            return
        if grace == NOT_ASKED:  # the job has removed the file
            grace = DEFAULT_GRACE_SECONDS if self.stop_at is None else self.stop_at - self.stop_began
        now = time.monotonic()
        if self.stop_at is None:
            self.asked = True
            self.stop_began, self.stop_at = now, now + grace
            self.say(f"asked to stop; SIGTERM sent, SIGKILL in {grace:.0f} s")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.command_pid, signal.SIGTERM)
        self.stop_at = min(self.stop_at, self.stop_began + grace)
        if now >= self.stop_at and not self.killed_after_grace:
            self.killed_after_grace = True
            self.say("still alive after the grace; SIGKILL sent")
            self.kill_everyone()

    def watch_memory(self) -> None:
        """Where no cgroup holds the limit: the sum of what the processes use, shared pages counted once."""
        limit, now = self.order["watch_memory_bytes"], time.monotonic()
        if not limit or self.memory_limit_hit or self.exit_code is not None or now < self.next_memory_look:
            return
        self.next_memory_look = now + MEMORY_TICK_SECONDS
        processes = psutil.Process().children(recursive=True)
        # Resident size counts shared pages once for each process: cheap, and never too small.
        if sum(map(resident, processes)) <= limit:
            return
        used = sum(map(proportional, processes))
        if used > limit:
            self.memory_limit_hit = limit
            self.say(f"uses {used:,} bytes of memory, its limit is {limit:,}; SIGKILL sent")
            self.kill_everyone()

    def cgroup_oom(self) -> int:
        try:
            events = Path(self.order["cgroup"], "memory.events").read_text()
            killed = any(
                line.startswith("oom_kill ") and line.split()[1] != "0" for line in events.splitlines()
            )
            return int(Path(self.order["cgroup"], "memory.max").read_text()) if killed else 0
        except (OSError, ValueError):
            return 0

    def kill_all(self) -> None:
        """Ends every descendant and reaps it; this process adopts orphans, so none can slip away."""
        deadline = time.monotonic() + LAST_KILL_SECONDS
        while self.reap() and time.monotonic() < deadline:
            self.kill_everyone()
            time.sleep(0.01)

    def kill_everyone(self) -> None:
        if self.order["cgroup"]:
            with contextlib.suppress(OSError):
                Path(self.order["cgroup"], "cgroup.kill").write_text("1")
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.kill()

    def say(self, sentence: str) -> None:
        """Into launcher.log, which the agent opened before the job could put a link in its place."""
        with contextlib.suppress(OSError):
            os.write(2, f"[trainmaster] {sentence}\n".encode())


def spawn(order: dict[str, Any], stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    cgroup, account = order["cgroup"], order["account"]

    def enter() -> None:  # between fork and exec
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if cgroup:
            Path(cgroup, "cgroup.procs").write_text("0")
        if account:
            os.setgroups(account["groups"])
            os.setgid(account["gid"])
            os.setuid(account["uid"])
            # sudo and its like give nothing back
            ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    with open_as(account, order["output"]) as output:
        # A group of its own inside this session: the group gets SIGTERM, this process does not.
        return subprocess.Popen(
            order["argv"],
            cwd=order["cwd"],
            stdin=stdin,
            stdout=output,
            stderr=output,
            process_group=0,
            preexec_fn=enter,
        )


def open_as(account: dict[str, Any] | None, path: str) -> IO[bytes]:
    """Opens with the rights of the account that will write: another job of its team may have put a link there."""
    if account is None:
        return open(path, "ab", buffering=0)
    os.setegid(account["gid"])
    os.seteuid(account["uid"])
    try:
        return open(path, "ab", buffering=0)
    finally:
        os.seteuid(0)
        os.setegid(0)


def read_stop(folder: Path) -> float:
    """The grace in seconds. The file lies in the job's folder, which may put anything in its place."""
    try:
        descriptor = os.open(folder / "stop", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return NOT_ASKED
    except OSError:
        return DEFAULT_GRACE_SECONDS
    try:
        grace = float(json.loads(os.read(descriptor, 1000))["grace_seconds"])
        return grace if grace >= 0 else DEFAULT_GRACE_SECONDS
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return DEFAULT_GRACE_SECONDS
    finally:
        os.close(descriptor)


def cause_of(error: Exception) -> str:
    if isinstance(
        error, FileNotFoundError
    ):  # the folder it starts in was made by the agent, so it is the program
        return (
            "this node has no such program; install it there, or give the job a container image that has it"
        )
    return getattr(error, "strerror", None) or str(error)


def resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def proportional(process: psutil.Process) -> int:
    try:
        return int(getattr(process.memory_full_info(), "pss", 0)) or resident(process)
    except psutil.Error:
        return 0


def take(records: Path, order: dict[str, Any]) -> bool:
    """True for exactly one process in the life of the attempt: the one that links process.json into place."""
    me = psutil.Process()
    document = {
        "pid": me.pid,
        "pgid": os.getpgid(0),
        "create_time": me.create_time(),
        "cgroup": order["cgroup"],
    }
    mine = records / f".process.json.{me.pid}"
    mine.write_text(json.dumps(document))
    try:
        os.link(mine, records / "process.json")
    except FileExistsError:
        return False
    finally:
        mine.unlink()
    return True


def watch_container(records: Path, order: dict[str, Any]) -> None:
    """Watches only the lease: an engine keeps the container alive and knows how it ended. One watcher at a time."""
    with open(records / "watcher.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        lease = NO_LEASE
        while True:
            lease = read_lease(order["lease"]) or lease
            if (loss := lease_loss(lease, order["ordered_ms"], boot_ms())) is not None:
                break
            # The agent leaves exit.json when the container has ended, and deletes the folder afterwards.
            if (records / "exit.json").exists() or not (records / "launch.json").exists():
                return
            time.sleep(TICK_SECONDS)
        cut_off_ms, grace = loss
        (records / "cut_off.json").write_text(json.dumps({"cut_off_ms": cut_off_ms}))
        subprocess.run([order["engine"], "stop", "--time", str(int(grace)), order["container"]], check=False)


def settle(order: dict[str, Any]) -> None:
    """Adopts orphans from now on, and leaves the agent's cgroup."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if order["shim_cgroup"]:
        with contextlib.suppress(OSError):
            Path(order["shim_cgroup"], "cgroup.procs").write_text("0")


def attend(
    records: Path,
    standby: subprocess.Popen[bytes] | None = None,
    environment: dict[str, str] | None = None,
) -> None:
    """Runs the attempt of these records, if nobody else does, and writes down how it ended."""
    order = json.loads((records / "launch.json").read_text())
    try:
        reserve_exit(records)
    except OSError as error:
        sys.exit(DISK_FULL_CODE if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"{error}")
    if take(records, order):
        write_exit(records, Shim(order, standby, environment).run())


def main() -> None:
    records = Path(sys.argv[1])
    order = json.loads((records / "launch.json").read_text())
    if "container" in order:
        watch_container(records, order)
        return
    settle(order)
    attend(records)


if __name__ == "__main__":
    main()
