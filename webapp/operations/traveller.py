"""Who takes the journey of `trainmaster demo`: Bob with an API token, and a function that prints each step."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trainmaster.client import Client

MINUTES = 10


class JourneyFailedError(Exception):
    """Which step did not come to its end, and what was seen instead."""


@dataclass
class Traveller:
    """Bob with a browser session, an API token and a function that prints each step."""

    url: str
    client: Client
    token: str
    say: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)

    def tell(self, sentence: str) -> None:
        self.say(f"{time.monotonic() - self.began:6.1f} s  {sentence}")

    def wait(self, purpose: str, look: Callable[[], Any], done: Callable[[Any], bool]) -> Any:
        """Look until it is done, a few times a second."""
        deadline = time.monotonic() + MINUTES * 60
        seen = look()
        while not done(seen):
            if time.monotonic() > deadline:
                raise JourneyFailedError(
                    f"{purpose} was not done after {MINUTES} minutes; the last look gave {seen}."
                )
            time.sleep(0.2)
            seen = look()
        return seen
