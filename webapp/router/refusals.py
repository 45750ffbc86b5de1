"""What a router refuses by itself."""

from __future__ import annotations


class Refused(Exception):
    def __init__(self, status: int, sentence: str, retry_after: int = 0) -> None:
        super().__init__(sentence)
        self.status, self.retry_after = status, retry_after
