"""Tensor and sequence parallel: each rank has a part of every matrix, and of the sequence between the blocks."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.functional import cross_entropy

import trainmaster

BYTES, LENGTH, WIDTH = 64, 16, 32


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mlp(self.norm(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.block = nn.Embedding(BYTES, WIDTH), Block()
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, BYTES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.block(self.embedding(x))))


# Between the blocks the activations are split along the sequence, which is dimension 1.
PLAN = {
    "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "block.norm": SequenceParallel(),
    "block.mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "block.mlp.0": ColwiseParallel(),
    "block.mlp.2": RowwiseParallel(output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Every rank has the whole batch: the next byte is the one before plus one."""
    x = torch.randint(BYTES, (8, LENGTH), generator=torch.Generator().manual_seed(step))
    return x, (x + 1) % BYTES


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, object]:
    """Sharded as the model is."""
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    device = torch.device("cuda", dist.get_node_local_rank()) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    trainmaster.init(total_steps=steps, seed=1)

    mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("tensor",))
    model = parallelize_module(Model().to(device), mesh, PLAN)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    done = 0
    if resumed := trainmaster.load_checkpoint(into=state_of(model, optimizer)):  # each rank reads its shards
        state, done = resumed
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])

    for step in range(done + 1, steps + 1):
        x, y = (part.to(device) for part in batch(step))
        loss = cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        trainmaster.log(step, loss=loss)
        stopping = trainmaster.should_stop()
        if stopping or step == steps or trainmaster.checkpoint_due(step, every=10):
            trainmaster.save_checkpoint(state_of(model, optimizer), step)
        if stopping:
            break
    trainmaster.finish()  # the last checkpoint is written
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
