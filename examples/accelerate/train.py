"""Hugging Face Accelerate: the loop is yours, the ranks are Accelerate's."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn.functional import mse_loss

import trainmaster
from trainmaster.integrations.accelerate import TrainmasterTracker, resume, save


def batch(step: int, rank: int, world: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))[rank::world]
    return x, x.sum(dim=1, keepdim=True)


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    accelerator = Accelerator(log_with=TrainmasterTracker(), cpu=not torch.cuda.is_available())
    accelerator.init_trackers("examples", config={"steps": steps})
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    done = resume(accelerator)

    for step in range(done + 1, steps + 1):
        x, y = batch(step, accelerator.process_index, accelerator.num_processes)
        loss = mse_loss(model(x.to(accelerator.device)), y.to(accelerator.device))
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.log({"loss": accelerator.reduce(loss.detach(), "mean")}, step)
        stopping = trainmaster.should_stop()
        if stopping or step == steps or trainmaster.checkpoint_due(step, every=10):
            save(accelerator, step)
        if stopping:
            break
    trainmaster.finish()  # the last checkpoint is written
    accelerator.end_training()


if __name__ == "__main__":
    main()
