"""The training script of `benchmarks.survival`: a small data-parallel model whose step takes a set time.

Under the platform it uses the SDK, under plain torchrun torch.save and torch.load; the loop is the same. Rank 0 writes
a line for each step into SURVIVAL_PROGRESS and all ranks leave when the file SURVIVAL_END is there.
"""

import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

OURS = "TRAINMASTER_DIR" in os.environ
if OURS:
    import trainmaster

STEP_S = float(os.environ.get("SURVIVAL_STEP_S", "0.05"))
EVERY = int(os.environ["SURVIVAL_EVERY"])
PROGRESS, END = Path(os.environ["SURVIVAL_PROGRESS"]), Path(os.environ["SURVIVAL_END"])


def load() -> tuple[dict[str, Any], int] | None:
    if OURS:
        return trainmaster.load_checkpoint()
    place = Path(os.environ["SURVIVAL_CHECKPOINT"])
    if not place.exists():
        return None
    saved = torch.load(place, weights_only=True)
    return saved["state"], saved["step"]


def save(state: dict[str, Any], step: int) -> None:
    if OURS:
        trainmaster.save_checkpoint(state, step)
        return
    if dist.get_rank() == 0:
        place = Path(os.environ["SURVIVAL_CHECKPOINT"])
        torch.save({"state": state, "step": step}, place.with_suffix(".new"))
        place.with_suffix(".new").replace(place)
    dist.barrier()


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = torch.nn.Linear(256, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    step = 0
    if OURS:
        trainmaster.init(seed=7)
    if (loaded := load()) is not None:
        state, step = loaded
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    first = dist.get_rank() == 0
    progress = PROGRESS.open("a", buffering=1) if first else None
    while True:
        step += 1
        begun = time.monotonic()
        loss = model(torch.randn(8, 256)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        gradients = torch.cat(
            [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
        )
        together = torch.cat([gradients, torch.tensor([float(first and END.exists())])])
        dist.all_reduce(together)
        optimizer.step()
        time.sleep(max(0.0, STEP_S - (time.monotonic() - begun)))
        if progress is not None:
            progress.write(f"{step} {time.time():.4f}\n")
        if OURS:
            trainmaster.log(step, loss=float(loss))
        stops = OURS and trainmaster.should_stop()
        if step % EVERY == 0 or stops:
            save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, step)
        if stops or together[-1].item():
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
