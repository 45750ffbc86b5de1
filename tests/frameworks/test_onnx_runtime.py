"""The real ONNX Runtime in the environment of the frameworks: the conformance suite of runtimes, and the whole path."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.architecture.rules.sources import ROOT
from tools import frameworks_venv

pytestmark = [pytest.mark.slow, pytest.mark.frameworks, pytest.mark.timeout(1_600)]
SUITES = ("tests/sdk/serving/test_runtimes.py", "tests/frameworks/onnx_cases.py")


def test_models_are_exported_checked_and_served_by_onnx_runtime() -> None:
    command = [
        str(frameworks_venv.ensure()),
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        *SUITES,
        "-k",
        "onnx",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1_500, check=False)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted is not None
    assert int(counted[1]) >= 15
    assert "skipped" not in done.stdout
