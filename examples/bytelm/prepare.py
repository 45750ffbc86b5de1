"""Makes the dataset of bytelm: the source files of Python's standard library, every tenth of them held out.

python prepare.py data
trainmaster dataset push data --name python-stdlib --team vision --purpose train
"""

import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

HELD_OUT_EVERY = 10


def collect(target: Path, source: Path | None = None) -> Path:
    """Fills `target` with train/ and heldout/ unless it is there. Several processes may do so at the same time."""
    if (target / "train").is_dir():
        return target
    source = source or Path(sysconfig.get_path("stdlib"))
    files = sorted(source.glob("*.py"))
    if len(files) < HELD_OUT_EVERY:
        raise SystemExit(f"{source} has {len(files)} Python files; at least {HELD_OUT_EVERY} are needed")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".collecting-") as unfinished:
        whole = Path(unfinished, "whole")
        for number, file in enumerate(files):
            folder = whole / ("heldout" if number % HELD_OUT_EVERY == 0 else "train")
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / file.name)
        try:
            whole.rename(target)
        except OSError:
            if not (target / "train").is_dir():  # another process was quicker
                raise
    return target


if __name__ == "__main__":
    folder = collect(Path(sys.argv[1] if len(sys.argv) > 1 else "data"))
    for part in ("train", "heldout"):
        files = list((folder / part).iterdir())
        print(f"{folder / part}: {len(files)} files, {sum(file.stat().st_size for file in files):,} bytes")
