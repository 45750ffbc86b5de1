"""Files of 400 lines, functions of 60; in the core 300 and 45. A waiver names what is larger, and only shrinks.

Scripts and stylesheets: files of 400 lines of 120 characters. Templates: 300 lines of 160.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.rules.sources import EVERYTHING, functions, sources

FILE, FUNCTION = 400, 60
CORE_FILE, CORE_FUNCTION = 300, 45
# Files that are no Python: lines of a file, characters of a line.
OTHERS = {"static/js/*.js": (FILE, 120), "static/css/*.css": (FILE, 120), "templates/**/*.html": (300, 160)}
WAIVERS = "tests/architecture/waivers.toml"


def measured(root: Path) -> Iterator[tuple[str, int, int]]:
    """What is measured, its lines, and its limit."""
    for source in sources(root, *EVERYTHING):
        core = source.name.startswith("platform_core/")
        yield source.name, source.lines, CORE_FILE if core else FILE
        for name, node in functions(source.tree):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield f"{source.name}::{name}", lines, CORE_FUNCTION if core else FUNCTION
    for path, (most_lines, _) in others(root):
        yield str(path.relative_to(root)), len(path.read_text().splitlines()), most_lines


def others(root: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    for pattern, limits in OTHERS.items():
        yield from ((path, limits) for path in sorted(root.glob(pattern)))


def long_lines(root: Path) -> Iterator[str]:
    for path, (_, most_characters) in others(root):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if len(line) > most_characters:
                name = path.relative_to(root)
                yield f"{name}:{number} has {len(line)} characters, {most_characters} are allowed; fold it"


def packed(root: Path) -> Iterator[str]:
    """Stylesheets: one declaration a line, and none on the line of its selector."""
    for path in sorted(root.glob("static/css/*.css")):
        text = re.sub(r'"[^"]*"|url\([^)]*\)', "", path.read_text())
        without_comments = re.sub(
            r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.S
        )
        for number, line in enumerate(without_comments.splitlines(), start=1):
            if re.search(r"[;{}]\s*\S", line):
                yield f"{path.relative_to(root)}:{number} holds more than one declaration; one a line"


def violations(root: Path) -> Iterator[str]:
    document = tomllib.loads((root / WAIVERS).read_text()) if (root / WAIVERS).exists() else {}
    waived: dict[str, int] = dict(document.get("lines", {}))
    if len(waived) > document.get("at_most", 0):
        yield f"{WAIVERS} has {len(waived)} waivers, at most {document.get('at_most', 0)}; that number only falls"
    for name, lines, limit in measured(root):
        allowed = waived.pop(name, None)
        if allowed is None and lines > limit:
            yield f"{name} has {lines} lines, {limit} are allowed; divide it by what it is about"
        if allowed is not None and lines > allowed:
            yield f"{name} has grown from its waived {allowed} lines to {lines}; a waiver only shrinks"
        if allowed is not None and lines < allowed:
            yield f"{name} has shrunk to {lines} lines; lower its waiver of {allowed}, or remove it at {limit}"
    yield from (f"{WAIVERS} waives {name}, which is no more" for name in waived)
