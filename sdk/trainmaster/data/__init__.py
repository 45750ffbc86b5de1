"""Data for a training loop: shuffled without a stored order, read ahead, and resumed at the exact sample.

    from trainmaster.data import DataLoader, JsonLines

    loader = DataLoader(JsonLines("data/*.jsonl"), global_batch=64, decode=json.loads, workers=2)
    for batch in loader:
        ...

docs/how-to/load-data.md describes it.
"""

from trainmaster.data.loader import DataLoader
from trainmaster.data.quarantine import NeedsReview, Quarantine, SetAside, ShardUnreadable
from trainmaster.data.sources import Files, JsonLines, Source, TokenBins
from trainmaster.data.stream import wait_for, write_index
from trainmaster.data.tables import Parquet
from trainmaster.data.tar import Tar

__all__ = [
    "DataLoader",
    "Files",
    "JsonLines",
    "NeedsReview",
    "Parquet",
    "Quarantine",
    "SetAside",
    "ShardUnreadable",
    "Source",
    "Tar",
    "TokenBins",
    "wait_for",
    "write_index",
]
