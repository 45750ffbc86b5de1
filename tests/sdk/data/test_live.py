"""A training that is killed with SIGKILL and goes on with other numbers of ranks and workers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.sdk import scripts

SAMPLES, BATCH = 40, 8
SCRIPT = """
import json, os, signal, sys, time
import torch.distributed as dist
import trainmaster
from trainmaster.data import DataLoader, JsonLines

workers, die_at = int(sys.argv[1]), int(sys.argv[2])
if "RANK" in os.environ:
    dist.init_process_group("gloo")
trainmaster.init(total_steps=10, seed=1, resume=True)
loader = DataLoader(JsonLines("data.jsonl"), 8, seed=1, decode=json.loads, workers=workers, processes=workers > 2)
resumed = trainmaster.load_checkpoint()
step = resumed[1] if resumed else 0
ledger = open(f"ledger-{loader.rank}.jsonl", "a")
while step < 10:
    for ids in loader:
        step += 1
        ledger.write(json.dumps({"attempt": sys.argv[3], "step": step, "ids": ids.tolist()}) + "\\n")
        ledger.flush()
        if step == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if trainmaster.checkpoint_due(step, every=2):
            trainmaster.save_checkpoint({}, step, blocking=True)
trainmaster.finish()
"""


@pytest.mark.timeout(200)
def test_each_sample_comes_once_an_epoch_through_kills_and_resizes(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text("".join(f"{n}\n" for n in range(SAMPLES)))
    (tmp_path / "train.py").write_text(SCRIPT)

    scripts.run(["train.py", "2", "4", "0"], tmp_path, fails=True)
    scripts.run(["train.py", "0", "8", "1"], tmp_path, ranks=2, fails=True)
    scripts.run(["train.py", "3", "0", "2"], tmp_path)

    by_step: dict[int, dict[int, list[int]]] = {}
    for file in tmp_path.glob("ledger-*.jsonl"):
        for row in map(json.loads, file.read_text().splitlines()):
            by_step.setdefault(row["step"], {}).setdefault(int(row["attempt"]), []).extend(row["ids"])
    valid = [attempts[max(attempts)] for _, attempts in sorted(by_step.items())]
    assert {step: sorted(attempts) for step, attempts in by_step.items()}[4] == [0, 1]
    for epoch in (valid[:5], valid[5:]):
        assert Counter(sample for batch in epoch for sample in batch) == Counter(range(SAMPLES))
