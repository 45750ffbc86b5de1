"""What of an app is public to the others; no import cycles; no imports hidden inside functions.

Which package and which app may know which other is in pyproject.toml, checked by import-linter.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.rules.sources import PRODUCT, Source, imports, only_for_types, sources

# Verbs, reads, the values both speak in, and what an app announces to those above it.
PUBLIC = {"services", "queries", "values", "signals"}
# The exceptions, each with its reason.
ALSO_PUBLIC = {
    "webapp.base.identity": "ids for new rows of every app",
    "webapp.base.ages": "what is stored is counted by age in one way, whatever app it belongs to",
    "webapp.base.lease": "leadership by a lease is the same for every coordinator",
    "webapp.base.traffic": "what the web processes counted of requests, for metrics and service levels alike",
    "webapp.base.spans": "every app sends its spans by the one exporter",
    "webapp.base.tracing": "one trace goes from a request to everything that it asks for",
    "webapp.base.rounds": "every coordinator looks after its subjects in one way",
    "webapp.base.turns": "how much one person may have going on is counted in one way",
    "webapp.base.connections": "whoever waits for a server of somebody else gives the connection back",
    "webapp.base.pulse": "the pulse of the workers is the same for all tasks",
    "webapp.base.stops": "what an operator stopped, which is nobody's outage",
    "webapp.jobs.measures": "what is measured of jobs, for metrics, alerts and service levels alike",
    "webapp.nodes.measures": "what is measured of nodes, for metrics, alerts and service levels alike",
    "webapp.serving.measures": "how endpoints do now, for alerts",
    "webapp.checkpoints.measures": "what is measured of checkpoints, for metrics, alerts and service levels alike",
    "webapp.scheduling.measures": "what is measured of the scheduler, for metrics, alerts and service levels alike",
    "webapp.accounts.sealing": "what is secret at rest is encrypted in one way",
    "webapp.base.outbound": "which addresses the platform connects to for people",
    "webapp.artifacts.git": "the one way in for code from a repository",
    "webapp.artifacts.images": "the one place that asks registries of images",
    "webapp.base.rows": "many rows change in one statement, whatever app they belong to",
    "webapp.sockets.subjects": "every app registers who may watch its subjects",
    "webapp.accounts.permissions": "the one place that decides who may do what",
    "webapp.accounts.mailing": "mail of every app is written and sent in one way",
    "webapp.accounts.credentials": "tokens of people and of machines are made and kept the same way",
    "webapp.deployments.models": "a rollout locks the row of its deployment and reads its workers",
    "webapp.jobs.origins": "an evaluation suite keeps its code and image as a job does, resolved once",
    "webapp.jobs.repetition": "a job is submitted again in one way, for people and by a retraining cycle",
    "webapp.jobs.logs": "log text streams past the verbs, which are for jobs",
    "webapp.jobs.idle_policy": "samples of utilisation come from whoever samples the nodes",
    "webapp.jobs.workload": "what the scheduler is asked with: its reads, apart from those of pages and nodes",
    "webapp.jobs.hints": "the scheduler says when a round begins, so that later changes ask for another",
    "webapp.accounts.admin": "what an operator changes in the admin of any app is audited",
}
# The top of the house may look into all of it: what puts the apps together, and the programs that bring them up.
COMPOSES = {
    "webapp.config",
    "webapp.operations",
    "webapp.pages",
    "webapp.rest",
    "webapp.mlflow",
    "webapp.rpc",
    "webapp.router",
}
HIDDEN = {
    "sdk/trainmaster/api.py": "httpx takes a tenth of a second to import, and most scripts do not query the platform",
    "sdk/trainmaster/tracking/live.py": "httpx again: a run without a login needs none",
    "sdk/trainmaster/serving/__main__.py": "a laptop may serve over HTTP without having gRPC",
    "sdk/trainmaster/store/__init__.py": "each kind of store brings a library that an installation may lack",
}
FIRST_PARTY = {"platform_core", "trainmaster_wire", "trainmaster", "agent", "webapp"}


def module_name(source: Source) -> str:
    name = source.name.removeprefix("sdk/").removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def app_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def crossings(root: Path) -> Iterator[str]:
    for source in sources(root, "webapp"):
        own = app_of(module_name(source))
        if own in COMPOSES:
            continue
        # A row that another app hands over may be named in an annotation.
        typing_only = only_for_types(source.tree)
        for node, target in _imported_modules(root, source.tree):
            if node.lineno in typing_only:
                continue
            if target.startswith("webapp.") and app_of(target) != own and not _is_public(target):
                yield (
                    f"{source.name}:{node.lineno} imports {target}; between apps only {', '.join(sorted(PUBLIC))} "
                    f"and {', '.join(sorted(ALSO_PUBLIC))} are public"
                )


def _is_public(module: str) -> bool:
    return module.split(".")[2:3] in [[name] for name in PUBLIC] or module in ALSO_PUBLIC


def _imported_modules(root: Path, tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    """`from webapp.jobs import services` imports webapp.jobs.services: seen as the module it names."""
    for node, module in imports(tree):
        if not isinstance(node, ast.ImportFrom):
            yield node, module
            continue
        for alias in node.names:
            inner = f"{module}.{alias.name}"
            yield node, inner if _is_module(root, inner) else module


def _is_module(root: Path, module: str) -> bool:
    for base in (root, root / "sdk", root / "proto"):
        path = base / module.replace(".", "/")
        if path.with_suffix(".py").exists() or (path / "__init__.py").exists():
            return True
    return False


def hidden(root: Path) -> Iterator[str]:
    """An import of our own inside a function usually hides a cycle. Django's `ready` is where it must be."""
    for source in sources(root, *PRODUCT):
        if source.name in HIDDEN:
            continue
        for function in ast.walk(source.tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.name == "ready":
                continue
            for node, module in imports(function):
                if module.partition(".")[0] in FIRST_PARTY:
                    yield f"{source.name}:{node.lineno} imports {module} inside {function.name}(); import it at the top"


def cycles(root: Path) -> Iterator[str]:
    graph = {module_name(source): _edges(root, source) for source in sources(root, *PRODUCT)}
    for ring in strongly_connected(graph):
        yield f"These modules import each other in a ring: {', '.join(sorted(ring))}"


def _edges(root: Path, source: Source) -> set[str]:
    typing_only = only_for_types(source.tree)
    return {
        target
        for node, target in _imported_modules(root, source.tree)
        if target.partition(".")[0] in FIRST_PARTY and node.lineno not in typing_only
    } - {module_name(source)}


def strongly_connected(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """Rings of two and more, by Tarjan's algorithm without recursion."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    for start in graph:
        if start in order:
            continue
        work = [(start, iter(sorted(graph[start])))]
        order[start] = low[start] = len(order)
        stack.append(start)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in graph:
                    continue
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    work.append((target, iter(sorted(graph[target]))))
                    break
                if target in stack:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    ring = set(stack[stack.index(node) :])
                    del stack[stack.index(node) :]
                    if len(ring) > 1:
                        yield ring
