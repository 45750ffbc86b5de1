"""How the package is had until it is on an index: from a checkout or a wheel, as README and docs say."""

import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_installs_nothing_from_an_index_that_does_not_have_it(page: Path) -> None:
    for package in re.findall(r"pip install\s+'?([^\s'`]+)", page.read_text()):
        assert not package.startswith("trainmaster"), f"{package} is on no index"
        if wheel := re.match(r"dist/(.+\.whl)", package):
            assert wheel[1] == f"trainmaster-{PROJECT['version']}-py3-none-any.whl"
        extras = re.search(r"\[(.+)\]", package)
        assert set(extras[1].split(",") if extras else []) <= set(PROJECT["optional-dependencies"])


@pytest.mark.slow
def test_the_wheel_brings_the_sdk_and_the_command_line(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheels = tmp_path / "dist"
    build = ["wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
    subprocess.run([*pip, *build], check=True, cwd=tmp_path)
    [wheel] = wheels.glob("*.whl")
    home = tmp_path / "home"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(home), str(wheel)], check=True)
    # Without the checkout: its own packages come from the wheel, those that it depends on from here.
    script = (
        f"import sys; sys.path[:0] = [{str(home)!r}]; sys.path.append({sysconfig.get_path('purelib')!r})\n"
        "import trainmaster, trainmaster.cli; print(trainmaster.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip().startswith(str(home)), done.stderr
