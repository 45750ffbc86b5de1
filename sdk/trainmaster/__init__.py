"""Trainmaster in a training script: metrics, checkpoints and a clean stop, on the platform and on a laptop.

    import trainmaster

    trainmaster.init(total_steps=1000, params={"lr": 3e-4}, seed=1)
    resumed = trainmaster.load_checkpoint()
    ...
    trainmaster.log(step, loss=loss)

docs/reference/sdk.md describes every call.
"""

from trainmaster.api import (
    checkpoint_due,
    data_dir,
    hyperparameters,
    init,
    load_checkpoint,
    log,
    log_artifact,
    save_checkpoint,
    should_stop,
)
from trainmaster.checkpoints.folder import CheckpointCorrupt
from trainmaster.checkpoints.saving import CheckpointNotSaved

__all__ = [
    "CheckpointCorrupt",
    "CheckpointNotSaved",
    "checkpoint_due",
    "data_dir",
    "hyperparameters",
    "init",
    "load_checkpoint",
    "log",
    "log_artifact",
    "save_checkpoint",
    "should_stop",
]
