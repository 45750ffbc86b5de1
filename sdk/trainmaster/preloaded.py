"""What a rank has imported before it begins. Nothing here may start a thread or look at a GPU: ranks are forked."""

from __future__ import annotations

import contextlib
import importlib

from trainmaster import rank

MODULES = (
    "numpy",
    "torch",
    "torch.distributed",
    # Imported after a group was made, it keeps that group for ever in the defaults of its functions.
    "torch.distributed.checkpoint",
    "torch.distributed.tensor",
    "torch.nn.parallel",
    "torch.optim",
    "torch.utils.data",
    "trainmaster.run",
    "trainmaster.checkpoints.saving",
    "trainmaster.checkpoints.loading",
)

rank.remember_environment()
for name in MODULES:
    with contextlib.suppress(ImportError):  # not in this PyTorch
        importlib.import_module(name)
