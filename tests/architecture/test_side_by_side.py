"""`make test` runs in several processes: what they share out, and what they must not tear apart."""

import os
import re
import subprocess
import sys

import pytest

from tests.architecture.rules.sources import ROOT
from tests.conftest import group_of

FILES = ("tests/core/test_ids.py", "tests/core/test_errors.py")


def test_the_tests_of_a_file_run_in_one_process() -> None:
    """So that what a file or a folder starts for all its tests is started once."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n", "2", "-v", "-p", "no:cacheprovider", *FILES]
    said = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=True).stdout
    ran = set(re.findall(r"^\[(gw\d)\].* PASSED (\S+)::", said, re.MULTILINE))
    assert len(ran) == len(FILES)
    assert {worker for worker, _ in ran} == {"gw0", "gw1"}


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("tests/e2e/test_a.py::test_x", "tests/e2e/test_b.py::test_y[1::2]", True),
        ("tests/core/test_a.py::test_x", "tests/core/test_a.py::test_y", True),
        ("tests/core/test_a.py::test_x", "tests/core/test_b.py::test_x", False),
    ],
)
def test_what_shares_a_platform_stays_together(one: str, other: str, together: bool) -> None:
    assert (group_of(one) == group_of(other)) is together
