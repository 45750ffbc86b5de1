"""FSDP2: each rank keeps a part of every parameter, of its gradient and of the optimizer's state."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss

import trainmaster


def batch(step: int, rank: int, world: int) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's part of the batch of this step: the same numbers, however many ranks there are."""
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))[rank::world]
    return x, x.sum(dim=1, keepdim=True)


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, object]:
    """Sharded as the model is."""
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", dist.get_node_local_rank()) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    trainmaster.init(total_steps=steps, seed=1)

    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    for layer in model:
        fully_shard(layer)  # gathered when it is needed, layer by layer
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    done = 0
    if resumed := trainmaster.load_checkpoint(into=state_of(model, optimizer)):  # each rank reads its shards
        state, done = resumed
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])

    for step in range(done + 1, steps + 1):
        x, y = (part.to(device) for part in batch(step, rank, world))
        loss = mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(mean := loss.detach() / world)
        trainmaster.log(step, loss=mean)
        stopping = trainmaster.should_stop()
        if stopping or step == steps or trainmaster.checkpoint_due(step, every=10):
            trainmaster.save_checkpoint(state_of(model, optimizer), step)
        if stopping:
            break
    trainmaster.finish()  # the last checkpoint is written
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
