"""Makes the virtual environment of the peers of the model server, `.venv/serving`: FastAPI and LitServe.

Its exact versions are in `tools/serving.lock`; torch is borrowed from the platform's own environment by a path file.
Run `python -m tools.serving_venv` to make it (some seconds, once), with `--lock` to take the newest versions.
"""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "tools" / "serving.lock"
ENVIRONMENT = ROOT / ".venv" / "serving"
PYTHON = ENVIRONMENT / "bin" / "python"
DIRECT = ("litserve", "fastapi", "uvicorn", "httptools", "uvloop")
HEADER = """\
# Exact versions of the peers of benchmarks.serving. Made by `python -m tools.serving_venv --lock`.
"""


def ensure() -> Path:
    """Returns the Python of the peers, after making its environment where there is none of this lock."""
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    done = ENVIRONMENT / ".installed-from-lock"
    content = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    with (ENVIRONMENT.parent / ".serving.lock").open("w") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        if not done.exists() or done.read_text() != content:
            _create()
            _pip("install", "--no-compile", "--no-deps", "--requirement", str(LOCK))
            done.write_text(content)
    return PYTHON


def _create() -> None:
    """An environment that sees the platform's packages after its own."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
    packages = Path("lib") / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (ENVIRONMENT / packages / "zz-trainmaster.pth").write_text(f"{Path(sys.prefix) / packages}\n")


def _pip(*arguments: str) -> str:
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"pip could not make the environment of the peers:\n{done.stderr[-3000:]}")
    return done.stdout


def lock() -> None:
    """Installs the newest versions, also of what the platform has, and writes them to the lock."""
    _create()
    _pip("install", "--no-compile", "--ignore-installed", *DIRECT)
    pins = sorted(_pip("freeze", "--local").split("\n"), key=str.lower)
    LOCK.write_text(HEADER + "".join(f"{pin}\n" for pin in pins if "==" in pin))


if __name__ == "__main__":
    if "--lock" in sys.argv[1:]:
        lock()
    print(ensure())
