"""The words of a filter, with their positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from platform_core.errors import TrainmasterError

MAX_LENGTH = 10_000


class TokenKind(StrEnum):
    WORD = "word"
    STRING = "string"
    QUOTED = "quoted name"  # in backticks
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str  # without quotes
    position: int  # of its first character, counted from 1
    joined: bool = False  # nothing stands between it and the token before

    @property
    def keyword(self) -> str:
        """The word in capitals; "" for anything else."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    def is_symbol(self, text: str) -> bool:
        return self.kind is TokenKind.SYMBOL and self.text == text

    def __str__(self) -> str:
        return "the end" if self.kind is TokenKind.END else f"{self.text[:60]!r}"


_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
    |(?P<word>[^\W0-9][\w./:@-]*)
    |(?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<quoted>`[^`]*`)
    |(?P<symbol><=|>=|!=|==|<>|[=<>(),])""",
    re.VERBOSE,
)


def invalid(position: int, reason: str) -> TrainmasterError:
    return TrainmasterError("filter_invalid", position=position, reason=reason)


def tokens(text: str) -> Iterator[Token]:
    """Raises filter_invalid at the first character that begins no token. Ends with a token of the kind END."""
    if len(text) > MAX_LENGTH:
        raise invalid(MAX_LENGTH + 1, f"it has {len(text):,} characters; the limit is {MAX_LENGTH:,}")
    _require_storable(text)
    place, ended = 0, 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise invalid(place + 1, _strange(text[place:]))
        place = match.end()
        kind = match.lastgroup or ""
        if kind != "space":
            yield Token(
                TokenKind[kind.upper()], _unquoted(kind, match[0]), match.start() + 1, match.start() == ended
            )
            ended = match.end()
    yield Token(TokenKind.END, "", len(text) + 1)


def _require_storable(text: str) -> None:
    """No parameter or tag has such a character, and the database refuses to compare with one."""
    for place, character in enumerate(text):
        if character == "\0" or "\ud800" <= character <= "\udfff":
            raise invalid(place + 1, "NUL and half surrogates are in no name and no value")


def _unquoted(kind: str, text: str) -> str:
    if kind == "string":
        return text[1:-1].replace(text[0] * 2, text[0])
    return text[1:-1] if kind == "quoted" else text


def _strange(rest: str) -> str:
    if rest[0] in "'\"`":
        return f"the quote {rest[0]} is not closed"
    if rest[0] in "0123456789+-.":
        return f"{rest.split()[0][:20]!r} is not a number; put a text into quotes"
    return f"{rest[0]!r} begins no name, value or operator"
