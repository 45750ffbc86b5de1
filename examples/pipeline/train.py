"""Pipeline parallel, 1F1B: each rank has one stage of the model; micro-batches flow through the stages."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.functional import mse_loss

import trainmaster

MICRO_BATCHES, WIDTH = 4, 16


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(16, WIDTH, generator=torch.Generator().manual_seed(step))
    return x, x.flip(dims=[1])


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", dist.get_node_local_rank()) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    trainmaster.init(total_steps=steps, seed=1)

    layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).to(device)
    # What flows between the stages; the first one's input needs no gradient.
    flow = torch.zeros(16 // MICRO_BATCHES, WIDTH, device=device, requires_grad=True)
    stage = PipelineStage(layers, rank, world, device, flow if rank else flow.detach(), flow)
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=mse_loss)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01)
    done = 0
    if resumed := trainmaster.load_checkpoint():
        state, done = resumed
        layers.load_state_dict(state[f"stage {rank}"]["model"])
        optimizer.load_state_dict(state[f"stage {rank}"]["optimizer"])

    for step in range(done + 1, steps + 1):
        x, y = (part.to(device) for part in batch(step))
        losses: list[torch.Tensor] = []
        last = rank == world - 1  # of one rank, the first stage is the last one too
        schedule.step(*(() if rank else (x,)), **({"target": y, "losses": losses} if last else {}))
        optimizer.step()
        optimizer.zero_grad()
        loss = torch.stack(losses).mean() if losses else torch.zeros((), device=device)
        dist.broadcast(loss, src=world - 1)  # the last stage knows it, rank 0 reports it
        trainmaster.log(step, loss=loss)
        stopping = trainmaster.should_stop()
        if stopping or step == steps or trainmaster.checkpoint_due(step, every=10):
            own = {"model": layers.state_dict(), "optimizer": optimizer.state_dict()}
            trainmaster.save_checkpoint({f"stage {rank}": own}, step)  # each rank adds its stage
        if stopping:
            break
    trainmaster.finish()  # the last checkpoint is written
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
