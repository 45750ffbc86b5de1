"""Resolves every extra of pyproject.toml and writes requirements.lock: `make lock`.

Versions that the lock names already stay as they are, so that one new package moves no other; `make lock UPGRADE=1`
takes the newest of all.

Exact versions without local suffixes: which build of torch is taken (CPU or CUDA) is the machine's index's choice,
and torch itself pins the CUDA packages of its build.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
ALSO = [
    "setuptools>=77",  # builds the editable install without a download of its own
    "async-timeout",  # redis needs it on Python 3.11.0 to 3.11.2, which Debian 12 has
]
HEADER = """\
# Exact versions of everything, resolved on Python {python} from the extras of pyproject.toml. Made by `make lock`.
# Install: pip install -r requirements.lock && pip install --no-build-isolation --no-deps --editable .
"""


def resolve(extras: str, *, upgrade: bool) -> list[dict[str, dict[str, str]]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--ignore-installed",
            "--report",
            str(report),
        ]
        kept = [] if upgrade else ["--constraint", str(LOCK)]
        done = subprocess.run(
            [*command, *kept, f"{ROOT}[{extras}]", *ALSO], capture_output=True, text=True, check=False
        )
        # pip leaves it in the checkout, where its entry points would hide those of the installed package.
        shutil.rmtree(ROOT / "trainmaster.egg-info", ignore_errors=True)
        if done.returncode:
            hint = "" if upgrade else "\nIf a locked version is in the way: make lock UPGRADE=1"
            sys.exit(f"pip could not resolve the extras {extras}:\n{done.stderr[-3000:]}{hint}")
        return list(json.loads(report.read_text())["install"])


def main() -> None:
    pins = {
        item["metadata"]["name"]: item["metadata"]["version"].partition("+")[0]
        for item in resolve("server,agent,export,train,embedded,dev", upgrade="--upgrade" in sys.argv[1:])
        if item["metadata"]["name"] != "trainmaster"
    }
    python = ".".join(map(str, sys.version_info[:2]))
    lines = [f"{name}=={pins[name]}\n" for name in sorted(pins, key=str.lower)]
    LOCK.write_text(HEADER.format(python=python) + "".join(lines))
    print(f"requirements.lock: {len(lines)} packages")


if __name__ == "__main__":
    main()
