"""The environment is read in one file on each side; everything else is told."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.rules.sources import Source, sources

READERS = {"webapp/config/settings.py", "agent/config.py", "sdk/trainmaster/environment.py"}


def violations(root: Path) -> Iterator[str]:
    for source in sources(root, "platform_core", "agent", "sdk/trainmaster", "webapp"):
        if source.name not in READERS:
            yield from _readings(source)


def _readings(source: Source) -> Iterator[str]:
    harmless = {id(part) for node in ast.walk(source.tree) for part in _harmless(node)}
    for node in ast.walk(source.tree):
        if id(node) in harmless:
            continue
        if _is_environment(node) or _imports_it(node):
            yield (
                f"{source.name}:{getattr(node, 'lineno', 0)} reads the environment; "
                f"only {', '.join(sorted(READERS))} do. "
                "To hand the whole of it on to a child, write `os.environ | {...}`"
            )


def _is_environment(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.environb", "os.getenv"}


def _imports_it(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "os"
        and any(alias.name in {"environ", "getenv", "environb"} for alias in node.names)
    )


def _harmless(node: ast.AST) -> Iterator[ast.AST]:
    """Two shapes look at no name: pointing Django at its settings, and handing the whole on to a child process."""
    if isinstance(node, ast.Call) and ast.unparse(node).startswith(
        "os.environ.setdefault('DJANGO_SETTINGS_MODULE', "
    ):
        yield from ast.walk(node.func)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and _is_environment(node.left):
        yield from ast.walk(node.left)
