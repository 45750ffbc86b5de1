"""Docker or Podman by command line: the few commands that the container launcher needs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from agent.launchers.contract import LauncherError

QUICK_SECONDS = 30
PULL_SECONDS = 3600  # `run` would fetch an image, too, that went meanwhile


@dataclass(frozen=True, slots=True)
class ContainerState:
    running: bool
    pid: int
    exit_code: int
    oom_killed: bool
    error: str


class Engine:
    """Every call is one process; it raises LauncherError with what the engine said."""

    def __init__(self, program: str, environment: Mapping[str, str]) -> None:
        self.program = program
        self.environment = dict(environment)

    @property
    def is_podman(self) -> bool:
        return "podman" in PurePath(self.program).name

    def fetch(self, image: str) -> None:
        """Pulls an image that is not there."""
        try:
            self._call(["image", "inspect", "--format", "{{.Id}}", image], QUICK_SECONDS)
        except LauncherError:
            self._call(["pull", "--quiet", image], PULL_SECONDS)

    def run(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """`environment` holds the values of `--env NAME`; the engine's own settings win."""
        self._call(["run", *arguments], PULL_SECONDS, {**environment, **self.environment})

    def state(self, name: str) -> ContainerState | None:
        """None when there is no such container."""
        document = self._inspect(name, "{{json .State}}")
        if document is None:
            return None
        # "created" counts as running: the engine is between making the container and starting it.
        running = bool(document.get("Running")) or document.get("Status") in ("created", "configured")
        return ContainerState(
            running=running,
            pid=int(document.get("Pid") or 0),
            exit_code=int(document.get("ExitCode") or 0),
            oom_killed=bool(document.get("OOMKilled")),
            error=str(document.get("Error") or ""),
        )

    def environment_of(self, name: str) -> dict[str, str]:
        entries = self._inspect(name, "{{json .Config.Env}}") or []
        return dict(entry.split("=", 1) for entry in entries if "=" in entry)

    def stop_later(self, name: str, grace_seconds: int) -> None:
        """Returns at once; the engine sends SIGTERM, waits, and sends SIGKILL."""
        subprocess.Popen(
            [self.program, "stop", "--time", str(grace_seconds), name],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def remove(self, name: str) -> None:
        try:
            self._call(["rm", "--force", name], QUICK_SECONDS)
        except LauncherError as error:
            if not _is_absent(str(error)):
                raise

    def _inspect(self, name: str, template: str) -> Any:
        try:
            output = self._call(["inspect", "--type", "container", "--format", template, name], QUICK_SECONDS)
        except LauncherError as error:
            if _is_absent(str(error)):
                return None
            raise
        return json.loads(output)

    def _call(
        self, arguments: Sequence[str], seconds: int, environment: Mapping[str, str] | None = None
    ) -> str:
        try:
            done = subprocess.run(
                [self.program, *arguments],
                env=dict(environment if environment is not None else self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except FileNotFoundError as error:
            raise LauncherError(
                f"This node has no {self.program}, which a job with a container image needs: install it here, or"
                " submit the job without container_image."
            ) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LauncherError(f"{self.program} {arguments[0]} did not work: {error}.") from error
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            raise LauncherError(
                f"{self.program} {arguments[0]} said: {lines[-1].rstrip('.') if lines else 'nothing'}."
            )
        return done.stdout


def _is_absent(sentence: str) -> bool:
    return "no such" in sentence.lower()


def is_name_taken(error: LauncherError) -> bool:
    return "already in use" in str(error).lower()
