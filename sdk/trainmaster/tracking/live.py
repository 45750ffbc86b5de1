"""A run outside the platform, as its own process keeps and sends it."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from platform_core.errors import TrainmasterError
from trainmaster.console import warn
from trainmaster.environment import ClientEnvironment
from trainmaster.login import Login, current_login
from trainmaster.tracking.folder import Identity, RunFolder, named

if TYPE_CHECKING:
    from trainmaster.tracking.background import Background


class Tracking:
    """The run's folder, held by this process, and the thread that sends it where a login is known."""

    def __init__(self, home: Path, environment: ClientEnvironment) -> None:
        self.folder = RunFolder(home)
        self.url = ""
        self._environment = environment
        self._process = os.getpid()
        self._background: Background | None = None
        self.identity = self._identity()

    def _identity(self) -> Identity:
        """A folder that cannot be written costs a warning elsewhere; the run goes on."""
        try:
            if not self.folder.hold():
                warn(f"{self.folder.path} is written by another process; this one is not sent")
            return self.folder.identity()
        except OSError:
            return Identity(uuid.uuid4().hex, self.folder.path.name)

    @property
    def is_ours(self) -> bool:
        """False in a fork, such as a worker of a data loader: the process that began the run sends it."""
        return os.getpid() == self._process

    def describe(self, **choices: str) -> None:
        """What the platform shall call the run; empty choices leave what it was."""
        self.identity = named(self.identity, **choices)
        try:
            self.folder.keep_identity(self.identity)
        except OSError as error:
            warn(f"{self.folder.path} cannot be written: {error.strerror or error}")

    def mask(self, text: str) -> str:
        """Without the values of environment variables that are named like secrets."""
        for name, value in self._environment.secrets.items():
            text = text.replace(value, f"•••{name}•••")
        return text

    def mask_values(self, values: Mapping[str, object]) -> dict[str, object]:
        return {name: self.mask(value) if isinstance(value, str) else value for name, value in values.items()}

    def start(self, say: Callable[[str], None]) -> None:
        """Make the run on the platform and send from now on; without login or network it stays in its folder."""
        if self._background is not None or self._environment.offline:
            return
        try:
            login = current_login(self._environment)
        except TrainmasterError as error:
            warn(str(error))
            return
        if login.url and login.token:
            self._start(login, say)

    def _start(self, login: Login, say: Callable[[str], None]) -> None:
        # httpx takes a tenth of a second to import; without a login nobody needs it.
        from trainmaster.client import Client, ClientError
        from trainmaster.tracking.background import Background, passes, sentence
        from trainmaster.tracking.sender import Sender

        try:
            sender = Sender(self.folder, Client(login.url, login.token, retries=0), warn)
        except (ClientError, OSError) as error:
            warn(f"{error} This run is not sent.")
            return
        try:
            sender.create()
        except Exception as error:
            if not passes(error):
                path = self.folder.path
                warn(f"{sentence(error)} The run is kept; send it with `trainmaster sync {path}`.")
                return
            warn(f"{sentence(error)} The run is kept in {self.folder.path} and is sent when that has passed.")
            away = True
        else:
            say(f"trainmaster: watch this run at {sender.url}")
            away = False
        self.url = sender.url
        self._background = Background(sender, away)
        self._background.start()

    def close(self, say: Callable[[str], None]) -> None:
        """Send the rest, within a bound, and say where the run is."""
        if not self.is_ours:
            return
        background, self._background = self._background, None
        if background is not None:
            background.close()
            if left := self.folder.waiting(background.sender.cursor):
                warn(
                    f"{left:,} bytes of this run are not sent yet; send them with `trainmaster sync {self.folder.path}`"
                )
            else:
                say(f"trainmaster: sent; {self.url}")
        self.folder.release()


class ExitWatch:
    """How this process is about to end, for its last words: an exception, or the code of sys.exit()."""

    def __init__(self) -> None:
        self.state, self.error = "succeeded", ""
        self._hook, self._exit = sys.excepthook, sys.exit
        sys.excepthook, sys.exit = self._excepted, self._exited  # type: ignore[assignment]

    def _excepted(self, kind: type[BaseException], error: BaseException, trace: object) -> None:
        self.state, self.error = outcome(error)
        self._hook(kind, error, trace)  # type: ignore[arg-type]

    def _exited(self, code: object = None) -> None:
        self.state, self.error = outcome(SystemExit(code))
        self._exit(code)  # type: ignore[arg-type]


def outcome(error: BaseException | None) -> tuple[str, str]:
    """State and error of a run that this exception ended."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return "succeeded", ""
    sentence = f"{type(error).__name__}: {error}".rstrip(": ")[:2000]
    return ("cancelled" if isinstance(error, KeyboardInterrupt) else "failed"), sentence
