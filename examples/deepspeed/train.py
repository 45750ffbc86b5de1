"""DeepSpeed ZeRO, stage 2: gradients and the optimizer's state are divided among the ranks."""

import deepspeed
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss

import trainmaster
from trainmaster.integrations.deepspeed import resume, save

CONFIG = {
    "train_batch_size": 16,
    "zero_optimization": {"stage": 2},
    "zero_allow_untested_optimizer": True,
    "wall_clock_breakdown": False,
}


def batch(step: int, rank: int, world: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))[rank::world]
    return x, x.sum(dim=1, keepdim=True)


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    trainmaster.init(total_steps=steps, seed=1)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    done = resume(engine)

    for step in range(done + 1, steps + 1):
        x, y = (part.to(engine.device) for part in batch(step, rank, world))
        loss = mse_loss(engine(x), y)
        engine.backward(loss)
        engine.step()
        dist.all_reduce(mean := loss.detach() / world)
        trainmaster.log(step, loss=mean)
        stopping = trainmaster.should_stop()
        if stopping or step == steps or trainmaster.checkpoint_due(step, every=10):
            save(engine, step)
        if stopping:
            break
    trainmaster.finish()  # the last checkpoint is written
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
