"""For Lightning.

trainer = Trainer(logger=TrainmasterLogger(), callbacks=[TrainmasterCallback()], enable_checkpointing=False)
trainer.fit(model, ckpt_path=resume(trainer))
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers.logger import Logger

import trainmaster
from trainmaster.integrations import files

NAME = "lightning.ckpt"


class TrainmasterLogger(Logger):
    name = "trainmaster"
    version = ""

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        trainmaster.init(params=dict(params) if isinstance(params, Mapping) else vars(params))

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        # Lightning counts from 0 the steps that the platform counts from 1.
        trainmaster.log(
            (step or 0) + 1, **{name: value for name, value in metrics.items() if name != "epoch"}
        )


class TrainmasterCallback(Callback):
    """Saves when a checkpoint is due, and ends the training when the platform stops the job."""

    def __init__(self, every: int = 100) -> None:
        self._every = every

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        stopping = trainmaster.should_stop()
        if stopping:
            trainer.should_stop = True
        if stopping or step == trainer.max_steps or trainmaster.checkpoint_due(step, self._every):
            folder = Path("lightning-state")
            trainer.save_checkpoint(folder / NAME)
            files.save(folder, step)


def resume(trainer: Trainer) -> str | None:
    """The checkpoint to go on from, for `ckpt_path`; None for a fresh run. All processes call it.

    Lightning begins its process group in `fit`; this begins it before, so that the ranks agree on the checkpoint.
    """
    trainer.strategy.setup_environment()
    folder = Path("lightning-resumed")
    return None if files.load(folder) is None else str(folder / NAME)
