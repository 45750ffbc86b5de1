"""The training script of `benchmarks.survival --measure notices`: a loop that says in which of its moments it is.

Rank 0 writes a line `MOMENT SECONDS STEP` into SURVIVAL_MOMENTS whenever that changes, and each step with its number.
"""

import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import trainmaster

EVERY = 8  # steps between saves, and between evaluations
STEP_S, COMPILE_S, EVALUATION_S = 0.1, 1.5, 1.0
ELEMENTS = int(os.environ.get("SURVIVAL_ELEMENTS", "8000000"))  # a save takes a while
MOMENTS = Path(os.environ["SURVIVAL_MOMENTS"])


def say(moment: str, step: int) -> None:
    if dist.get_rank() == 0:
        with MOMENTS.open("a") as file:
            file.write(f"{moment} {time.time():.3f} {step}\n")


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    say("start-up", 0)
    trainmaster.init(seed=7)
    state: dict[str, Any] = {"weights": torch.zeros(ELEMENTS), "step": 0}
    if (loaded := trainmaster.load_checkpoint()) is not None:
        state, first = loaded
        assert state["step"] == first, "the state is that of another step"
    step = state["step"]
    say("resumed", step)
    say("compile", step)
    time.sleep(COMPILE_S)  # without a look at any order, as a compiler does
    while True:
        say("step", step)
        together = torch.ones(1)
        dist.all_reduce(together)
        time.sleep(STEP_S)
        step += 1
        state["weights"] += 1
        state["step"] = step
        say("made", step)
        trainmaster.log(step, loss=1 / step)
        if trainmaster.should_stop():
            say("stopping", step)
            trainmaster.save_checkpoint(state, step)
            break
        if step % EVERY == EVERY // 2:
            say("evaluation", step)
            time.sleep(EVALUATION_S)
        if step % EVERY == 0:
            say("save", step)
            trainmaster.save_checkpoint(state, step)
            time.sleep(STEP_S)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
