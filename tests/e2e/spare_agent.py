"""An agent that the platform does not supervise, so that a test may kill it and start it again."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.site import PATIENCE, SPARE
from webapp.operations.platform_process import PlatformProcess
from webapp.operations.programs import AGENT, runnable
from webapp.operations.state_folder import read_environment

NAME = "node-5"


@dataclass
class SpareAgent:
    platform: PlatformProcess
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def data(self) -> Path:
        return self.platform.folder / "agents" / NAME

    def start(self) -> None:
        """Between two racks: in a chain it has neighbours on both sides."""
        told = read_environment(self.platform.folder / "platform.env")
        settings = {
            "SERVER": told["TRAINMASTER_GATEWAY_LISTEN"],
            "TOKEN": told["TRAINMASTER_BOOTSTRAP_TOKEN"],
            "DATA": str(self.data),
            "HOSTNAME": NAME,
            "RACK": "rack-1b",
            "SLOTS": "2",
            "GPU_TYPE": SPARE,
            "ADDRESS": "127.0.0.1",
            "INSECURE": "1",
        }
        environment = {f"TRAINMASTER_AGENT_{name}": value for name, value in settings.items()}
        with (self.platform.folder / "logs" / f"{NAME}.log").open("ab") as log:
            self.process = subprocess.Popen(
                runnable(AGENT), env=os.environ | environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()


@contextmanager
def in_a_shell(command: str, folder: Path, hostname: str) -> Iterator[None]:
    """The command as a person pastes it; only its name and type keep it apart from the other nodes of this machine."""
    (program, *_) = runnable(("trainmaster",))
    surroundings = {
        "PATH": f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}",
        "TRAINMASTER_AGENT_HOSTNAME": hostname,
        "TRAINMASTER_AGENT_GPU_TYPE": SPARE,
        "TRAINMASTER_AGENT_ADDRESS": "127.0.0.1",
    }
    shell = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=os.environ | surroundings, start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait(PATIENCE)
