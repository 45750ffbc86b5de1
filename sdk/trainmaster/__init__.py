"""Trainmaster in a training script: metrics, checkpoints and a clean stop, on the platform and elsewhere.

    import trainmaster

    trainmaster.init(total_steps=1000, params={"lr": 3e-4}, seed=1)
    resumed = trainmaster.load_checkpoint()
    ...
    trainmaster.log(step, loss=loss)

docs/reference/sdk.md describes every call.
"""

from trainmaster.api import (
    check_corruption,
    checkpoint_due,
    data_dir,
    export_model,
    finish,
    hyperparameters,
    init,
    load_checkpoint,
    log,
    log_artifact,
    measuring,
    read_checkpoint,
    runs,
    save_checkpoint,
    save_training_reference,
    serving_constraints,
    set_tags,
    should_stop,
    stop_deadline,
    use_dataset,
)
from trainmaster.checkpoints.folder import CheckpointCorrupt
from trainmaster.checkpoints.saving import CheckpointNotSaved
from trainmaster.corruption import CorruptionFound
from trainmaster.meshes import device_mesh, expert_mesh, layout
from trainmaster.run import Run
from trainmaster.values import Audio, Histogram, Html, Image, Table, Text

__all__ = [
    "Audio",
    "CheckpointCorrupt",
    "CheckpointNotSaved",
    "CorruptionFound",
    "Histogram",
    "Html",
    "Image",
    "Run",
    "Table",
    "Text",
    "check_corruption",
    "checkpoint_due",
    "data_dir",
    "device_mesh",
    "expert_mesh",
    "export_model",
    "finish",
    "hyperparameters",
    "init",
    "layout",
    "load_checkpoint",
    "log",
    "log_artifact",
    "measuring",
    "read_checkpoint",
    "runs",
    "save_checkpoint",
    "save_training_reference",
    "serving_constraints",
    "set_tags",
    "should_stop",
    "stop_deadline",
    "use_dataset",
]
