"""How the package is had until it is on an index: from a checkout or a wheel, as README and docs say."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import tomllib
import urllib.request
import venv
from pathlib import Path

import pytest

from tests.support import surroundings

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


def test_the_changelog_begins_with_a_dated_section_of_the_version_in_work() -> None:
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    dated = [section for section in sections if section != "Unreleased"]
    assert re.fullmatch(rf"{re.escape(PROJECT['version'])} - \d{{4}}-\d{{2}}-\d{{2}}", dated[0])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made out of the sdist, which is made out of what git knows: neither lacks a file."""
    folder = tmp_path_factory.mktemp("release")
    checkout = folder / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    build(checkout, "build_sdist", folder)
    [sdist] = folder.glob("trainmaster-*.tar.gz")
    with tarfile.open(sdist) as tar:
        tar.extractall(folder / "unpacked", filter="data")
    build(folder / "unpacked" / sdist.name.removesuffix(".tar.gz"), "build_wheel", folder)
    [wheel] = folder.glob("trainmaster-*.whl")
    assert wheel.name.startswith(f"trainmaster-{PROJECT['version']}-")
    return wheel


def build(source: Path, hook: str, target: Path) -> None:
    script = f"from setuptools import build_meta; build_meta.{hook}({str(target)!r})"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that has the wheel; what the wheel depends on comes from here, the checkout does not."""
    home = tmp_path_factory.mktemp("home") / "venv"
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True)
    [packages] = home.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in ("uvicorn", "celery"):
        program = home / "bin" / name
        program.write_text(PROGRAM.format(python=python, name=name))
        program.chmod(0o755)
    return python


PROGRAM = """#!{python}
import sys
from importlib.metadata import entry_points
[program] = entry_points(group="console_scripts", name="{name}")
sys.exit(program.load()())
"""


@pytest.mark.slow
def test_the_wheel_brings_the_sdk_and_the_command_line(python: Path, tmp_path: Path) -> None:
    script = "import trainmaster, trainmaster.cli, webapp; print(trainmaster.__file__, webapp.ROOT)"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    for path in done.stdout.split():
        assert path.startswith(str(python.parents[1])), done.stderr
    commands = subprocess.run(
        [python.with_name("trainmaster"), "--help"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    for command in ("submit", "up", "agent", "backup", "restore"):
        assert re.search(rf"^  {command}\b", commands.stdout, re.MULTILINE), commands.stdout


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_installed_platform_starts_and_shows_its_pages(python: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="trainmaster-installed-"))
    folder.chmod(0o711)  # as root, PostgreSQL runs under an account without rights and must pass
    with surroundings.of_a_stranger(), (folder / "output").open("w+b") as output:
        command = [python.with_name("trainmaster"), "up", "--dir", folder / "var", "--agents", "0"]
        platform = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, start_new_session=True)
        try:
            ready = folder / "var" / "run" / "ready"
            while not ready.exists():
                assert platform.poll() is None, (folder / "output").read_text()
                time.sleep(0.1)
            url = ready.read_text().strip()
            with urllib.request.urlopen(f"{url}/login/", timeout=10) as answer:
                [sheet] = re.findall(r'href="(/static/css/[^"]+)"', answer.read().decode())
            with urllib.request.urlopen(f"{url}{sheet}", timeout=10) as answer:
                assert b"--accent" in answer.read()
        finally:
            platform.terminate()
            platform.wait(60)
            shutil.rmtree(folder, ignore_errors=True)
