"""Writes docs/reference/mlflow.md: each endpoint of the pinned MLflow server, and whether Trainmaster serves it.

`make docs` reads the endpoints from tools/mlflow_endpoints.txt; `python -m tools.mlflow_reference --endpoints` asks the
MLflow of the peer's environment for them anew, after its lock has changed.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import django
from django.apps import apps

from tools import mlflow_differences, mlflow_venv

ROOT = Path(__file__).resolve().parent.parent
ENDPOINTS = ROOT / "tools" / "mlflow_endpoints.txt"
PAGE = ROOT / "docs" / "reference" / "mlflow.md"
MARKER = "<!-- Made by `make docs` from here on. -->"
ASK = """
from mlflow.server.handlers import get_endpoints
for address, handler, methods in get_endpoints():
    if not address.startswith(("/ajax-api", "/graphql")):
        for method in methods:
            print(method, address)
"""
# Why an endpoint is not served, by what its address contains.
REASONS = {
    "/presigned": "artifacts go through the server",
    "/workspaces": "teams are managed under Admin",
    "/webhooks": "the platform sends mail, not webhooks",
    "/traces": "tracing of language models is out of scope",
    "/scorers": "evaluation of language models is out of scope",
    "/datasets": "evaluation datasets of language models are out of scope",
    "/issues": "review of language models is out of scope",
    "/label-schemas": "review of language models is out of scope",
    "/review-queues": "review of language models is out of scope",
    "/gateway": "the gateway to language models is out of scope",
    "/create-promptlab-run": "trying prompts is out of scope",
    "/gateway-proxy": "the gateway to language models is out of scope",
    "/get-trace-artifact": "tracing of language models is out of scope",
    "/ui-telemetry": "nothing is told about people",
    "/prompt-optimization": "prompt optimisation is out of scope",
}
# Addresses of MLflow's page that its list of endpoints leaves out.
OF_PAGES = (
    ("GET", "/get-artifact"),
    ("GET", "/model-versions/get-artifact"),
    ("POST", "/graphql"),
    ("GET", "/ajax-api/2.0/mlflow/metrics/get-history-bulk"),
    ("GET", "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval"),
    ("POST", "/ajax-api/2.0/mlflow/experiments/search-datasets"),
    ("POST", "/ajax-api/2.0/mlflow/upload-artifact"),
    ("GET", "/ajax-api/2.0/mlflow/logged-models/<model_id>/artifacts/files"),
    ("POST", "/ajax-api/2.0/mlflow/runs/create-promptlab-run"),
    ("POST", "/ajax-api/2.0/mlflow/gateway-proxy"),
    ("GET", "/ajax-api/2.0/mlflow/get-trace-artifact"),
    ("GET", "/ajax-api/3.0/mlflow/ui-telemetry"),
)
RECORDED = (
    "The tests send recorded requests to this server and compare each field of the answer with what MLflow's server "
    "gave. Beside ids, times and random names, only this may differ:"
)
UNREACHABLE = "/api/2.0mlflow"  # a handler of MLflow without a usable address
OTHERS = "MLflow itself answers 404"


def ask() -> str:
    """The endpoints of the peer, one a line."""
    done = subprocess.run(
        [str(mlflow_venv.ensure()), "-W", "ignore", "-c", ASK], capture_output=True, text=True, check=True
    )
    return "".join(
        f"{line}\n" for line in sorted(set(done.stdout.splitlines()), key=lambda line: line.split()[::-1])
    )


def served() -> set[tuple[str, str]]:
    """Method and address of all that the door answers, with names of parameters left out."""
    if not apps.ready:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.support.static_settings")
        django.setup()
    from webapp.mlflow import routes

    below = {
        "/api/2.0/mlflow/": routes.TRACKING,
        "/api/2.0/mlflow-artifacts/": routes.PROXY,
        "/api/3.0/mlflow/": routes.WORKSPACES,
        "/ajax-api/2.0/mlflow/": [*routes.TRACKING, *routes.PAGE_ONLY],
        "/": routes.PLAIN,
    }
    found = {(e.method, _nameless(prefix + e.path)) for prefix, endpoints in below.items() for e in endpoints}
    return found | {("GET", "/api/3.0/mlflow/server-info"), ("POST", "/graphql")}


def _nameless(address: str) -> str:
    return re.sub(r"<[^>]*>", "<>", address)


def table() -> Iterator[str]:
    answered = served()
    lines = [line.split() for line in ENDPOINTS.read_text().splitlines()]
    known = [(method, address) for method, address in lines if not address.startswith(UNREACHABLE)]
    known += OF_PAGES
    count = sum((method, _nameless(address)) in answered for method, address in known)
    version = next(line for line in mlflow_venv.LOCK.read_text().splitlines() if line.startswith("mlflow=="))
    yield f"MLflow {version.partition('==')[2]} has {len(known)} endpoints; {count} are served.\n"
    yield "| Method | Address | Served |"
    yield "|---|---|---|"
    for method, address in known:
        yes = (method, _nameless(address)) in answered
        yield f"| {method} | `{address}` | {'yes' if yes else f'no: {_reason(address)}'} |"


def _reason(address: str) -> str:
    return next((reason for part, reason in REASONS.items() if part in address), OTHERS)


def page() -> str:
    written = PAGE.read_text().partition(MARKER)[0]
    answers = ["", "## What differs in single answers", "", RECORDED, "", *mlflow_differences.lines()]
    return f"{written}{MARKER}\n\n" + "\n".join([*table(), *answers]) + "\n"


if __name__ == "__main__":
    if "--endpoints" in sys.argv[1:]:
        ENDPOINTS.write_text(ask())
    PAGE.write_text(page())
