"""Lightning: a module, a logger and a callback."""

import os

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

import trainmaster
from trainmaster.integrations.lightning import TrainmasterCallback, TrainmasterLogger, resume


class Sums(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        (x,) = batch
        loss = mse_loss(self.model(x), x.sum(dim=1, keepdim=True))
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    seed_everything(1)
    gpu = torch.cuda.is_available()
    world, on_this_node = (int(os.environ.get(name, 1)) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    trainer = Trainer(
        accelerator="gpu" if gpu else "cpu",
        devices=on_this_node,
        num_nodes=world // on_this_node,
        strategy="ddp" if world > 1 else "auto",
        max_steps=steps,
        logger=TrainmasterLogger(),
        callbacks=[TrainmasterCallback(every=10)],
        log_every_n_steps=1,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = DataLoader(TensorDataset(torch.randn(16, 8)), batch_size=8)
    trainer.fit(Sums(), data, ckpt_path=resume(trainer))
    trainmaster.finish()  # the last checkpoint is written


if __name__ == "__main__":
    main()
