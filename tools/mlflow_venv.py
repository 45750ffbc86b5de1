"""Makes the virtual environment of the MLflow peer, `.venv/mlflow`: the real client and the real server of MLflow.

It stands apart because MLflow pins packages that the platform has in other versions. Its exact versions are in
`tools/mlflow.lock`; torch, which is large, is borrowed from the platform's own environment by a path file.
Run `python -m tools.mlflow_venv` to make it (half a minute, once), with `--lock` to take the newest versions.
"""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "tools" / "mlflow.lock"
ENVIRONMENT = ROOT / ".venv" / "mlflow"
PYTHON = ENVIRONMENT / "bin" / "python"
DIRECT = ("mlflow", "psycopg2-binary")  # its server uses PostgreSQL through psycopg2
WITHOUT_TORCH = ("pytorch-lightning", "torchmetrics", "lightning-utilities")  # they would install torch again
HEADER = """\
# Exact versions of the MLflow peer that tests and benchmarks drive. Made by `python -m tools.mlflow_venv --lock`.
"""


def ensure() -> Path:
    """Returns the Python of the peer, after making its environment where there is none of this lock."""
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    done = ENVIRONMENT / ".installed-from-lock"
    content = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    with (ENVIRONMENT.parent / ".mlflow.lock").open("w") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)  # test processes start side by side
        if not done.exists() or done.read_text() != content:
            _create()
            _pip("install", "--no-compile", "--no-deps", "--requirement", str(LOCK))
            _borrow_torch()
            done.write_text(content)
    return PYTHON


def _create() -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)


def _pip(*arguments: str) -> str:
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"pip could not make the environment of the MLflow peer:\n{done.stderr[-3000:]}")
    return done.stdout


def _borrow_torch() -> None:
    """Appends the platform's packages to the peer's path: the peer's own versions come first."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = Path("lib") / version / "site-packages"
    path_file = ENVIRONMENT / packages / "trainmaster.pth"
    path_file.write_text(f"{Path(sys.prefix) / packages}\n")


def lock() -> None:
    """Installs the newest versions and writes them to the lock."""
    _create()
    _pip("install", "--no-compile", *DIRECT)
    _pip("install", "--no-compile", "--no-deps", *WITHOUT_TORCH)
    pins = sorted(_pip("freeze", "--all").split(), key=str.lower)
    lines = [f"{pin}\n" for pin in pins if not pin.startswith(("pip==", "setuptools=="))]
    LOCK.write_text(HEADER + "".join(lines))


if __name__ == "__main__":
    if "--lock" in sys.argv[1:]:
        lock()
    print(ensure())
