"""requirements.lock holds exact versions of all that pyproject.toml asks for, and nothing tied to one machine."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.rules.sources import ROOT

LINES = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked() -> dict[str, str]:
    pins = (line.split("==") for line in LINES)
    return {canonicalize_name(name): version for name, version in pins}


def test_every_line_is_one_exact_version_without_a_local_build() -> None:
    assert [line for line in LINES if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_the_lock_meets_every_requirement_of_the_project() -> None:
    pins = locked()
    wanted = [
        *PROJECT["dependencies"],
        *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
    ]
    for requirement in map(Requirement, wanted):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked; run `make lock`"
        assert requirement.specifier.contains(version, prereleases=True), (
            f"{requirement} is locked at {version}"
        )
