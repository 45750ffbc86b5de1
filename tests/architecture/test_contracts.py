"""The import contracts of pyproject.toml: complete, kept, and each of them bites."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.rules.sources import ROOT
from tests.architecture.test_rules import plant

CONFIG: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = {contract["id"]: contract for contract in CONFIG["tool"]["importlinter"]["contracts"]}
APP_LAYERS = {app for layer in CONTRACTS["apps"]["layers"] for app in layer.split(" | ")}
SCHEDULING = {name for layer in CONTRACTS["scheduling"]["layers"] for name in layer.split(" | ")}
PACKAGES = CONFIG["tool"]["importlinter"]["root_packages"]


def lint(tree: Path) -> tuple[int, str]:
    """Runs import-linter in `tree`, whose packages come before the installed ones."""
    command = [
        str(Path(sys.executable).parent / "lint-imports"),
        "--no-cache",
        "--config",
        str(ROOT / "pyproject.toml"),
    ]
    path = f"{tree}:{tree / 'sdk'}:{tree / 'proto'}"
    done = subprocess.run(
        command, cwd=tree, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_every_contract_is_kept() -> None:
    code, output = lint(ROOT)
    assert code == 0, output


def test_every_package_of_the_project_stands_in_a_layer() -> None:
    layers = {name for layer in CONTRACTS["packages"]["layers"] for name in layer.split(" | ")}
    installed = {
        path.parent.name
        for base in (ROOT, ROOT / "sdk", ROOT / "proto")
        for path in base.glob("*/__init__.py")
        if path.parent.name != "tests"
    } - {"benchmarks", "tools", "examples"}
    assert installed == layers == set(PACKAGES)


def test_every_app_stands_in_a_layer() -> None:
    apps = {path.parent.name for path in (ROOT / "webapp").glob("*/__init__.py")}
    assert apps == APP_LAYERS


APPS = {f"webapp/{app}/__init__.py": "" for app in APP_LAYERS}
EMPTY = APPS | {
    "platform_core/__init__.py": "",
    "platform_core/scheduling/__init__.py": "",
    **{f"platform_core/scheduling/{name}/__init__.py": "" for name in SCHEDULING},
    "proto/trainmaster_wire/__init__.py": "",
    "sdk/trainmaster/__init__.py": "",
    "agent/__init__.py": "",
    "agent/transfer/__init__.py": "",
    **{f"agent/transfer/{folder}/__init__.py": "" for folder in CONTRACTS["transfer"]["layers"]},
    "webapp/__init__.py": "",
}


@pytest.mark.parametrize(
    ("files", "contract"),
    [
        ({"agent/a.py": "import webapp.jobs"}, "packages"),
        ({"webapp/a.py": "import agent"}, "packages"),
        ({"sdk/trainmaster/a.py": "import agent"}, "packages"),
        ({"platform_core/a.py": "import trainmaster_wire"}, "packages"),
        ({"platform_core/scheduling/placement/a.py": "import platform_core.scheduling.state"}, "scheduling"),
        ({"webapp/base/a.py": "import webapp.sockets"}, "apps"),
        ({"webapp/sockets/a.py": "import webapp.events"}, "apps"),
        ({"webapp/events/a.py": "import webapp.jobs"}, "apps"),
        ({"webapp/nodes/a.py": "import webapp.quotas"}, "apps"),
        ({"webapp/jobs/a.py": "import webapp.pages"}, "apps"),
        ({"webapp/pages/a.py": "import webapp.rest"}, "apps"),
        ({"webapp/rest/a.py": "import webapp.pages"}, "apps"),
        ({"webapp/rpc/a.py": "import webapp.rest"}, "apps"),
        ({"webapp/registry/a.py": "import webapp.deployments"}, "apps"),
        ({"webapp/payroll/__init__.py": ""}, "apps"),
        ({"platform_core/a.py": "import time"}, "core"),
        ({"platform_core/a.py": "from django.db import models"}, "core"),
        ({"agent/a.py": "import django"}, "agent"),
        ({"agent/transfer/disk/a.py": "import agent.transfer.peers"}, "transfer"),
        ({"sdk/trainmaster/a.py": "import grpc"}, "sdk"),
    ],
    ids=lambda value: (
        next(iter(value)) + ": " + next(iter(value.values())) if isinstance(value, dict) else value
    ),
)
def test_a_planted_import_breaks_its_contract(files: dict[str, str], contract: str, tmp_path: Path) -> None:
    plant(tmp_path, EMPTY | files)
    code, output = lint(tmp_path)
    assert code == 1, output
    assert f"{CONTRACTS[contract]['name']} BROKEN" in output or "undeclared" in output.lower(), output


def test_the_empty_house_keeps_every_contract(tmp_path: Path) -> None:
    plant(tmp_path, EMPTY)
    code, output = lint(tmp_path)
    assert code == 0, output
