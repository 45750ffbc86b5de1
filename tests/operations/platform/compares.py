"""Ranks whose steps are saved and compared. From step WRONG_FROM on the second one flips a bit, in its first
attempt only, as a GPU does that is taken out afterwards; ends when the file that GO_ON_UNTIL names appears."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

import trainmaster

EVERY = 5
dist.init_process_group("gloo")
trainmaster.init(seed=1)
weights = torch.zeros(64)
step = 0
if (loaded := trainmaster.load_checkpoint()) is not None:
    state, step = loaded
    weights = state["weights"]
    print(f"went on from step {step}", flush=True)
wrong_from = int(os.environ["WRONG_FROM"]) if loaded is None or step == 0 else 10**9
enough = Path(os.environ["GO_ON_UNTIL"])


def recompute(batch: torch.Tensor) -> torch.Tensor:
    result = batch * 2 + weights
    if step >= wrong_from and dist.get_rank() == 1:
        result.view(torch.int32)[0] ^= 1
    return result


while True:
    step += 1
    weights += 1
    trainmaster.check_corruption(step, recompute, torch.arange(64.0))
    trainmaster.log(step, loss=1 / step)
    ends = torch.tensor([float(enough.exists() or trainmaster.should_stop())])
    dist.all_reduce(ends)
    if step % EVERY == 0 or ends.item():
        trainmaster.save_checkpoint({"weights": weights}, step)
    if ends.item():
        break
    time.sleep(0.1)
dist.destroy_process_group()
