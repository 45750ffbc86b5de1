"""A whole platform as a child process: started, waited for, used from outside, stopped. For the demo and the tests."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from webapp.operations.programs import ROOT, runnable
from webapp.operations.state_folder import read_environment
from webapp.operations.supervisor import TETHER


class PlatformError(Exception):
    """Why it did not start, or ended early."""


@dataclass
class PlatformProcess:
    """`trainmaster up` in `folder`. `stop` leaves nothing behind when told so, not even training that would go on."""

    folder: Path
    process: "subprocess.Popen[bytes]"
    url: str

    @classmethod
    def start(
        cls, folder: Path, *arguments: str, seconds: float = 300, output: IO[bytes] | None = None
    ) -> "PlatformProcess":
        folder.mkdir(parents=True, exist_ok=True)
        ready = folder / "run" / "ready"
        ready.unlink(missing_ok=True)
        tether = (sys.executable, str(TETHER), "--pid-file", str(folder / "process.pid"), "--")
        command = runnable(("trainmaster", "up", "--dir", str(folder), "--quiet", *arguments))
        # Its own session: Ctrl-C reaches us alone, and we decide in which order things end.
        process = subprocess.Popen([*tether, *command], start_new_session=True, stdout=output, stderr=output)
        platform = cls(folder, process, "")
        try:
            platform._wait_until(ready, seconds)
        except BaseException:
            platform.stop()
            raise
        platform.url = ready.read_text().strip()
        return platform

    def _wait_until(self, ready: Path, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not ready.exists():
            if self.process.poll() is not None:
                raise PlatformError(
                    f"The platform ended with code {self.process.returncode} before it was ready."
                )
            if time.monotonic() > deadline:
                raise PlatformError(
                    f"The platform was not ready after {seconds:.0f} s; see {self.folder / 'logs'}."
                )
            time.sleep(0.1)

    def manage(self, *arguments: str) -> str:
        """A command of manage.py with the platform's own environment; its output, or its error."""
        environment = os.environ | read_environment(self.folder / "platform.env")
        command = runnable(("python", "manage.py", *arguments))
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PlatformError(f"manage.py {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def running(self) -> bool:
        return self.process.poll() is None

    def stop(self, training_too: bool = True) -> int:
        if self.running():
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        if training_too:
            end_training(self.folder / "agents")
        return code


def end_training(agents: Path) -> list[int]:
    """Kills the attempts that outlived their agents, with all they started; gives those that it found."""
    ended = []
    for path in agents.glob("*/records/*/process.json"):
        process = training_process(path)
        if process is not None:
            # torchrun gives its workers sessions of their own: killing the group would leave them behind.
            for child in [*process.children(recursive=True), process]:
                with suppress(psutil.Error):
                    child.kill()
            ended.append(process.pid)
    return ended


def training_process(path: Path) -> psutil.Process | None:
    try:
        recorded = json.loads(path.read_text())
        process = psutil.Process(recorded["pid"])
        same = abs(process.create_time() - float(recorded["create_time"])) < 1
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (OSError, ValueError, KeyError, psutil.Error, RecursionError):
        return None
