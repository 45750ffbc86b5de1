"""What a checkpoint costs: beside torch.save and DCP in the same run, on ranks of one machine.

python -m benchmarks.checkpoints [--bytes 1GiB] [--ranks 2] [--device cpu] [--tries 1000] [--folder DIR]

JSON lines:
    blocking     seconds for which the loop stands still: torch.save, dcp.async_save and save_checkpoint, the median of
                 several saves; ours_first_s is the first one, which takes the host memory. ratio: ours over torch.save;
                 memory_copy_s: the same bytes into memory, which no copy beats
    overhead     step time while a save is written, over step time without
    verification seconds of a save with digests and without, and the share of the digests
    load         seconds to load on the ranks that saved, every byte verified
    reshard      seconds to load on another number of ranks
    corruption   damages (flipped bits, truncations, missing files) that were tried, caught, and loaded all the same

Targets: ratio at most 1/30, step_ratio at most 1.05, verification at most 5 % of the save, loaded_wrong 0.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from platform_core.units import parse_bytes

RANKS = "benchmarks.rig.checkpoint_ranks"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bytes", default="1GiB", help="of the whole state")
    parser.add_argument("--ranks", type=int, default=2, help="that save; a GPU machine needs a GPU for each")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--saves", type=int, default=3, help="by each way")
    parser.add_argument("--tries", type=int, default=1_000, help="damages of a small checkpoint")
    parser.add_argument("--folder", help="on the disk to measure; default: the one for temporary files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="checkpoints-", dir=options.folder) as folder:
        for line in measured(options, Path(folder)):
            print(json.dumps(line), flush=True)


def measured(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    size = parse_bytes(options.bytes)
    about = {"bytes": size, "ranks": options.ranks, "device": options.device}
    for line in on_ranks(options.ranks, folder, "save", size, options):
        yield {**line, **about}
    for ranks in (options.ranks // 2, options.ranks * 2):
        if ranks and (options.device == "cpu" or ranks <= options.ranks):
            [line] = on_ranks(ranks, folder, "load", size, options)
            yield {
                "measure": "reshard",
                "from": options.ranks,
                "to": ranks,
                "seconds": line["seconds"],
                **about,
            }
    yield corruption(folder / "small", options.tries)


def on_ranks(
    ranks: int, folder: Path, mode: str, size: int, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """The lines of rank 0 under torchrun."""
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "HOME": "/nowhere",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m", RANKS]
    done = subprocess.run(
        [sys.executable, *launcher, mode, str(size), str(options.saves), options.device, str(folder)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def corruption(folder: Path, tries: int) -> dict[str, Any]:
    """Damages one file of a whole checkpoint at a time."""
    import torch

    from trainmaster.checkpoints.saving import Request, Saver

    state = {f"layer{number}": torch.arange(300.0) + number for number in range(8)}
    saver = Saver(folder, 1, lambda: 0, lambda path, description: None, print)
    checkpoint = saver.save(state, Request(1, {}, blocking=True))
    assert checkpoint is not None
    files = [path for path in sorted(checkpoint.iterdir()) if path.name != "trainmaster.json"]
    dice, caught, wrong = random.Random(1), 0, 0
    for _ in range(tries):
        path = dice.choice(files)
        whole = path.read_bytes()
        damage(path, whole, dice)
        found, loaded = tried(checkpoint, state)
        caught, wrong = caught + found, wrong + loaded
        path.write_bytes(whole)
    return {"measure": "corruption", "tried": tries, "caught": caught, "loaded_wrong": wrong}


def damage(path: Path, whole: bytes, dice: random.Random) -> None:
    match dice.choice(("flip", "flip", "flip", "truncate", "remove")):
        case "flip":
            damaged = bytearray(whole)
            damaged[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
            path.write_bytes(damaged)
        case "truncate":
            path.write_bytes(whole[: dice.randrange(len(whole))])
        case _:
            path.unlink()


def tried(checkpoint: Path, state: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the damage was found, and whether anything of it was loaded."""
    import torch

    from trainmaster.checkpoints import loading
    from trainmaster.checkpoints.folder import CheckpointCorrupt

    into = {name: torch.full_like(tensor, -1) for name, tensor in state.items()}
    found = False
    try:
        loading.load(loading.Source([checkpoint], print, go_back=False), into)
    except CheckpointCorrupt:
        found = True
    return found, any(bool((tensor != -1).any()) for tensor in into.values())


if __name__ == "__main__":
    main()
