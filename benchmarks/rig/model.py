"""A model of random bytes, the same at every call, with its manifest."""

import random
from pathlib import Path

from platform_core.distribution.content.manifest import Manifest, ManifestBuilder


def make_model(folder: Path, size: int, piece: int) -> Manifest:
    folder.mkdir(parents=True, exist_ok=True)
    builder, source = ManifestBuilder("model", 16 * piece, piece), random.Random(1)
    with (folder / "weights.bin").open("wb") as file:
        for start in range(0, size, 1 << 20):
            block = source.randbytes(min(1 << 20, size - start))
            file.write(block)
            builder.feed("weights.bin", block)
    return builder.finish()
