"""Complex and native parsers of what people bring run in a reader process (trainmaster.reader) and nowhere else."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.rules.sources import imports, only_for_types, sources

# A module of the server or the agent may import these behind the door only.
PARSERS = frozenset({
    "PIL", "av", "bz2", "cv2", "dill", "google.protobuf", "gzip", "h5py", "imageio", "joblib", "lxml",
    "lzma", "markdown", "markdown_it", "marshal", "msgpack", "nbformat", "nh3", "onnx", "onnxruntime",
    "orjson", "pandas", "pickle", "plistlib", "pyarrow", "safetensors", "shelve", "soundfile", "tarfile",
    "tensorboard", "tensorflow", "toml", "tomllib", "torch", "torchvision", "ujson", "xml", "yaml",
    "zipfile", "zlib", "zstandard",
})  # fmt: skip
# Run by `reader.pool.read` alone: they may import parsers, and no module may import them.
BEHIND = frozenset(
    {
        "agent.uplink.event_lines",
        "trainmaster.event_files.reading",
        "webapp.artifacts.unpacking",
        "webapp.datasets.arrow_rows",
    }
)
# Files beside the door, and why they may stand there.
BESIDE: dict[str, str] = {
    "agent/attempts/records.py": "protobuf of the agent's own records",
    "webapp/config/compression.py": "compresses only",
    "webapp/jobs/placement.py": "a checksum",
    "webapp/metrics/codec.py": "what the server compressed itself",
    "webapp/operations/archive.py": "an operator's own backup, in a process of its own",
    "webapp/pages/experiments/charts.py": "a checksum",
    "webapp/pages/jobs/presentation.py": "writes only",
    "webapp/pages/jobs/submit.py": "writes only",
    "webapp/pages/markdown.py": "text of 200,000 characters at most",
    "webapp/pages/reports/document.py": "names a type",
    "webapp/pages/tensorboard/server.py": "a process of its own, over files that the platform wrote",
    "webapp/registry/evidence.py": "what the server compressed itself",
    "webapp/rest/bodies.py": "gzip up to the limit of a body",
    "webapp/rpc/enrolment.py": "a message of gRPC, which parses protobuf of bounded length in every call",
    "webapp/scheduling/rounds.py": "what the server compressed itself",
}


def violations(root: Path) -> Iterator[str]:
    for source in sources(root, "agent", "platform_core", "webapp"):
        module = source.name.removesuffix(".py").replace("/", ".")
        types = only_for_types(source.tree)
        for node, name in imports(source.tree):
            if node.lineno in types:
                continue
            within = {name, *(f"{name}.{alias.name}" for alias in node.names)}
            if module not in BEHIND and (behind := BEHIND.intersection(within)):
                yield f"{source.name}:{node.lineno} imports {min(behind)}, which a reader process alone runs"
            parser = next(
                (each for each in sorted(PARSERS) if any(_is_below(one, each) for one in within)), ""
            )
            if parser and module not in BEHIND and source.name not in BESIDE:
                yield (
                    f"{source.name}:{node.lineno} imports {parser}, which parses what people bring; put what needs it "
                    "into a module that trainmaster.reader runs, and name that in BEHIND"
                )
    yield from _stale(root)


def _is_below(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _stale(root: Path) -> Iterator[str]:
    """Of this repository; a planted tree has none of them."""
    if not (root / "pyproject.toml").exists():
        return
    for name in sorted([*BESIDE, *(f"{module.replace('.', '/')}.py" for module in BEHIND)]):
        if not any((root / folder / name).exists() for folder in (".", "sdk")):
            yield f"tests/architecture/rules/parsers.py names {name}, which is no more"


def nesting(root: Path) -> Iterator[str]:
    """Whoever expects text that is no JSON also expects JSON that is nested beyond the stack of Python."""
    for source in sources(root, "agent", "platform_core", "webapp"):
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Try) or not any(map(_reads_json, node.body)):
                continue
            caught = " ".join(ast.unparse(each.type) for each in node.handlers if each.type)
            if "ValueError" in caught and not any(
                name in caught for name in ("RecursionError", "UNREADABLE")
            ):
                yield f"{source.name}:{node.lineno} reads JSON and catches ValueError without RecursionError"


def _reads_json(statement: ast.stmt) -> bool:
    calls = (ast.unparse(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(call in ("json.loads", "json.load") or call.endswith(".json") for call in calls)
