"""The planner reads a config.json as the real transformers does."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.architecture.rules.sources import ROOT
from tools import frameworks_venv

pytestmark = [pytest.mark.slow, pytest.mark.frameworks, pytest.mark.timeout(1_600)]


def test_configurations_are_counted_as_transformers_counts_them() -> None:
    command = [
        *(str(frameworks_venv.ensure()), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
        "tests/frameworks/configuration_cases.py",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1_500, check=False)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted is not None
    assert int(counted[1]) >= 60
