"""Which files the rules look at, parsed once."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("platform_core", "agent", "sdk/trainmaster", "webapp")
EVERYTHING = (*PRODUCT, "tests", "tools", "benchmarks", "examples")


@dataclass(frozen=True)
class Source:
    path: Path
    name: str  # relative to the root, as the sentences say it
    text: str

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.path, self.text)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


@cache
def _parsed(path: Path, text: str) -> ast.Module:
    return ast.parse(text, filename=str(path))


def sources(root: Path, *folders: str) -> Iterator[Source]:
    """Written by hand: neither generated from .proto files nor by makemigrations."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if path.parent.name == "migrations" or "_pb2" in path.name:
                continue
            yield Source(path, str(path.relative_to(root)), path.read_text())


def imports(tree: ast.AST) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    """Every imported module in full, with its statement; relative imports are refused by the linter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node, node.module


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Outermost functions and methods with their dotted names; what is nested counts as part of them."""

    def walk(
        body: list[ast.stmt], prefix: str
    ) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + node.name, node
            elif isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.If | ast.Try | ast.With):
                yield from walk(node.body, prefix)

    yield from walk(tree.body, "")


def only_for_types(tree: ast.Module) -> set[int]:
    """Lines under `if TYPE_CHECKING:`, which never run."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }
