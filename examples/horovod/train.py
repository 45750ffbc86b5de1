"""Horovod: rank 0 saves and tells the others; a resized job goes on from its checkpoint with the ranks it has."""

import horovod.torch as hvd
import torch
from torch import nn
from torch.nn.functional import mse_loss

import trainmaster


def batch(step: int, rank: int, world: int) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's part of the batch of this step: the same numbers, however many ranks there are."""
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))[rank::world]
    return x, x.sum(dim=1, keepdim=True)


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    hvd.init()
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trainmaster.init(total_steps=steps, seed=1)

    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    done = 0
    if resumed := trainmaster.load_checkpoint():  # every rank reads it
        state, done = resumed
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    for step in range(done + 1, steps + 1):
        x, y = (part.to(device) for part in batch(step, hvd.rank(), hvd.size()))
        loss = mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trainmaster.log(step, loss=hvd.allreduce(loss.detach()))
        # Ranks may learn of a stop one step apart: they agree.
        stopping = bool(hvd.allreduce(torch.tensor(float(trainmaster.should_stop()))) > 0)
        if stopping or step == steps or trainmaster.checkpoint_due(step, every=10):
            trainmaster.save_checkpoint(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, step
            )
        if stopping:
            break
    trainmaster.finish()  # the last checkpoint is written
    hvd.shutdown()


if __name__ == "__main__":
    main()
