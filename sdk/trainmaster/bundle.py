"""Which files of a folder are sent to the platform, and their git commit."""

from __future__ import annotations

import getpass
import os
import socket
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from platform_core.distribution.content.tiling import check_path
from platform_core.errors import TrainmasterError

DIFF_LIMIT = 512 * 1024
# Made by tools; git ignores most of them by itself.
SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", "trainmaster-runs"}
    | {".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints"}
)
SKIPPED_SUFFIXES = frozenset({".pyc", ".pyo"})


def code_files(folder: Path) -> list[tuple[str, Path]]:
    """(path in the bundle, file), ordered: the files that git does not ignore, without git all but those of tools."""
    return sorted(set(_entries(folder, _code(folder))))  # in a merge git lists a file once for each side


def executables(files: Iterable[tuple[str, Path]]) -> list[str]:
    """The paths, in the bundle, of the files that their owner may run."""
    return [inner for inner, path in files if path.stat().st_mode & stat.S_IXUSR]


def data_files(folder: Path) -> list[tuple[str, Path]]:
    """Everything in the folder but files of tools, special files, and links that lead out of it; ordered."""
    return sorted(_entries(folder, (path for path in folder.rglob("*") if path.is_file())))


def left_out(folder: Path, files: Iterable[tuple[str, Path]]) -> list[str]:
    """The links and files of the folder that are not among those to send; a folder that tools made counts once."""
    sent, left = {path for path, _ in files}, []
    for base, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(base, name)
            inner = path.relative_to(folder).as_posix()
            if name in SKIPPED_FOLDERS or (inner not in sent and (name in names or path.is_symlink())):
                left.append(inner)
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
    return sorted(left)


def code_left_out(folder: Path, files: Iterable[tuple[str, Path]]) -> list[str]:
    """What git does not ignore, without git everything, that is not among the files to send."""
    sent = {path for path, _ in files}
    inner = {path.relative_to(folder) for path in _code(folder) if os.path.lexists(path)}
    return sorted(path.as_posix() for path in inner if path.as_posix() not in sent and not _is_of_tools(path))


def shown(name: str) -> str:
    """As a terminal prints it: a name on disk may be no text, or have an end of line."""
    text = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return text if text.isprintable() else repr(text)


def lineage(folder: Path) -> dict[str, str]:
    """Where the code comes from: commit, branch and diff; without git only user and folder."""
    facts = {"submitted_from": f"{_user()}@{socket.gethostname()}:{folder.resolve()}"}
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return facts
    facts["git_commit"] = commit.strip()
    branch = (_git(folder, "rev-parse", "--abbrev-ref", "HEAD") or "").strip()
    if branch and branch != "HEAD":
        facts["git_branch"] = branch
    diff = _git(folder, "diff", "HEAD", "--no-color", "--no-ext-diff", "--", ".") or ""
    if diff:
        facts["git_diff"] = _bounded(diff)
    return facts


def _entries(folder: Path, paths: Iterator[Path]) -> Iterator[tuple[str, Path]]:
    root = folder.resolve()
    for path in paths:
        inner = path.relative_to(folder)
        if _is_of_tools(inner) or not _is_valid(inner.as_posix()):
            continue
        # A deleted file that git still lists, a submodule, or a link that leads out of the folder.
        if path.is_file() and path.resolve().is_relative_to(root):
            yield inner.as_posix(), path


def _is_of_tools(inner: Path) -> bool:
    return bool(SKIPPED_FOLDERS.intersection(inner.parts)) or inner.suffix in SKIPPED_SUFFIXES


def _is_valid(name: str) -> bool:
    try:
        return bool(check_path(name))
    except TrainmasterError:
        return False


def _code(folder: Path) -> Iterator[Path]:
    listed = _git(
        folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard", errors="surrogateescape"
    )
    return _walk(folder) if listed is None else (folder / name for name in listed.split("\0") if name)


def _walk(folder: Path) -> Iterator[Path]:
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        links = [name for name in folders if os.path.islink(os.path.join(base, name))]
        yield from (Path(base, name) for name in (*files, *links))


def _bounded(diff: str) -> str:
    size = len(diff.encode())
    if size <= DIFF_LIMIT:
        return diff
    kept = diff.encode()[:DIFF_LIMIT].decode(errors="ignore")
    return f"{kept}\n[cut here: the whole diff has {size:,} bytes]\n"


def _git(folder: Path, *arguments: str, errors: str = "replace") -> str | None:
    """None where git or the repository is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors=errors)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return "unknown"
