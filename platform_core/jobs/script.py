"""The file that a command starts, as far as the command tells."""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Collection, Sequence

_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_WITH_VALUE = frozenset({"-W", "-X", "-o", "-O"})  # options of an interpreter that take the next word
_PATHS_SHOWN = 3


def script_of(command: Sequence[str]) -> str:
    """The path that a command runs in its folder; '' where it names none, or one that only the node can know."""
    words = list(command)
    program = posixpath.basename(words[0]) if words else ""
    if (program.startswith("python") and not program.endswith(".py")) or program in _SHELLS:
        words.pop(0)
        while words and words[0].startswith("-"):
            option = words.pop(0)
            if option[1:2] in ("m", "c") or option == "-":
                return ""
            if option in _WITH_VALUE and words:
                words.pop(0)
    elif not (program.endswith((".py", ".sh")) or (words[:1] and words[0].startswith("./"))):
        return ""  # a program that the node has
    path = words[0] if words else ""
    if not path or path.startswith(("/", "~")) or "$" in path:
        return ""
    path = posixpath.normpath(path)
    return "" if path.startswith("..") else path


def missing_script(command: Sequence[str], files: Collection[str] | None) -> str:
    """A sentence when the file that the command starts cannot be there, else ''. `files` are those of its code
    bundle; None: it has none, and begins in an empty folder."""
    script = script_of(command)
    if not script or (files is not None and script in files):
        return ""
    if files is None:
        return f"The command runs {script}, but the job has no code: choose the bundle that has the file."
    name = posixpath.basename(script)
    near = [path for path in sorted(files) if posixpath.basename(path) == name]
    near = near or difflib.get_close_matches(script, files, n=1)
    if near:
        return f"The command runs {script}, which is not in the code bundle; did you mean {near[0]}?"
    paths = ", ".join(sorted(files)[:_PATHS_SHOWN]) + (" …" if len(files) > _PATHS_SHOWN else "")
    return f"The command runs {script}, which is not in the code bundle; it has {paths or 'no files'}."
