"""Makes the virtual environment of the frameworks, `.venv/frameworks`, for the tests of their examples.

It stands apart because the platform needs none of them. Its exact versions are in `tools/frameworks.lock`; torch, and
what else the platform has, is borrowed from the platform's own environment by a path file.
Run `python -m tools.frameworks_venv` to make it (half a minute, once), with `--lock` to take the newest versions.
"""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "tools" / "frameworks.lock"
ENVIRONMENT = ROOT / ".venv" / "frameworks"
PYTHON = ENVIRONMENT / "bin" / "python"
DIRECT = (
    "transformers", "accelerate", "lightning", "jax", "tensorflow-cpu", "deepspeed",
    "onnx", "onnxscript", "onnxruntime",
)  # fmt: skip
HEADER = """\
# Exact versions of the frameworks whose examples are tested. Made by `python -m tools.frameworks_venv --lock`.
"""


def ensure() -> Path:
    """Returns the Python of the frameworks, after making its environment where there is none of this lock."""
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    done = ENVIRONMENT / ".installed-from-lock"
    content = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    with (ENVIRONMENT.parent / ".frameworks.lock").open("w") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)  # test processes start side by side
        if not done.exists() or done.read_text() != content:
            _create()
            _pip("install", "--no-compile", "--no-deps", "--requirement", str(LOCK))
            done.write_text(content)
    return PYTHON


def _create() -> None:
    """An environment that sees the platform's packages after its own."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
    packages = Path("lib") / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    borrowed = (Path(sys.prefix) / packages, ROOT, ROOT / "sdk", ROOT / "proto")
    (ENVIRONMENT / packages / "zz-trainmaster.pth").write_text("".join(f"{path}\n" for path in borrowed))


def _pip(*arguments: str) -> str:
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"pip could not make the environment of the frameworks:\n{done.stderr[-3000:]}")
    return done.stdout


def lock() -> None:
    """Installs the newest versions, what the platform has left out, and writes them to the lock."""
    _create()
    _pip("install", "--no-compile", *DIRECT)
    pins = sorted(_pip("freeze", "--local").split("\n"), key=str.lower)
    LOCK.write_text(HEADER + "".join(f"{pin}\n" for pin in pins if "==" in pin))


if __name__ == "__main__":
    if "--lock" in sys.argv[1:]:
        lock()
    print(ensure())
