"""Where a run outside the platform comes from: command line, commit, changes that are in no commit."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from trainmaster import bundle

_SECRET = re.compile(
    r"(?i)(?:^|[-_.])(?:token|secret|passw(?:or)?d|api[-_]?key|access[-_]?key|credentials?)s?$"
)
MASKED = "•••"


def command_line(words: Sequence[str]) -> list[str]:
    """Without what stands behind an option that is named like a secret."""
    shown: list[str] = []
    hide = False
    for word in words:
        name, equals, value = word.partition("=")
        secret = name.startswith("-") and _SECRET.search(name) is not None
        shown.append(MASKED if hide else f"{name}={MASKED}" if secret and equals and value else word)
        hide = secret and not equals
    return shown


def facts(folder: Path, mask: Callable[[str], str]) -> dict[str, object]:
    """For the lineage of the run. `mask` hides the values of secrets."""
    words = [Path(sys.executable).name, *(sys.argv if sys.argv and sys.argv[0] else ["-"])]
    known: dict[str, object] = {name: mask(text) for name, text in bundle.lineage(folder).items()}
    return {**known, "command": [mask(word) for word in command_line(words)]}
