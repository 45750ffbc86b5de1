"""The core decides and does nothing else: no clock, no chance, no input or output, no framework."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.rules.sources import Source, imports, only_for_types, sources

# What may be imported is listed, so that a new way to the outside must be argued for here.
ALLOWED = {
    "__future__", "abc", "bisect", "collections", "contextlib", "csv", "dataclasses", "datetime", "decimal",
    "difflib", "enum", "fractions",
    "functools", "hashlib", "heapq", "ipaddress", "itertools", "json", "math", "numbers", "operator", "posixpath", "re",
    "shlex", "statistics", "string", "types", "typing",
    "numpy",  # in hot loops
    "platform_core",
}  # fmt: skip
REACHES_OUT = {"open", "print", "input", "eval", "exec", "__import__", "breakpoint"}
# The clock and chance hide in modules that are otherwise allowed.
IMPURE_ATTRIBUTES = {"now", "utcnow", "today", "time_ns", "monotonic", "urandom"}


def violations(root: Path) -> Iterator[str]:
    for source in sources(root, "platform_core"):
        yield from _imports(source)
        yield from _calls(source)


def _imports(source: Source) -> Iterator[str]:
    typing_only = only_for_types(source.tree)
    for node, module in imports(source.tree):
        if module.partition(".")[0] not in ALLOWED and node.lineno not in typing_only:
            yield f"{source.name}:{node.lineno} imports {module}; the core may import only what purity.py lists"


def _calls(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in REACHES_OUT:
            yield f"{source.name}:{node.lineno} calls {called.id}(); the core has no input or output"
        if isinstance(called, ast.Attribute) and called.attr in IMPURE_ATTRIBUTES:
            yield f"{source.name}:{node.lineno} calls .{called.attr}(); `now` is a field of the snapshot or the event"
        if ast.unparse(called).startswith(("np.random", "numpy.random")):
            yield f"{source.name}:{node.lineno} draws chance from numpy; take an `rng` instead"
