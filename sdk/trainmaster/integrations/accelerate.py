"""For Hugging Face Accelerate.

accelerator = Accelerator(log_with=TrainmasterTracker())
accelerator.init_trackers("run")
done = resume(accelerator)              # after prepare()
accelerator.log({"loss": loss}, step)
save(accelerator, step)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.tracking import GeneralTracker

import trainmaster
from trainmaster.integrations import files

FOLDER = Path("accelerate-state")


class TrainmasterTracker(GeneralTracker):
    name = "trainmaster"
    requires_logging_directory = False
    main_process_only = False  # `trainmaster` itself lets rank 0 alone report

    def __init__(self) -> None:
        super().__init__()

    @property
    def tracker(self) -> Any:
        return trainmaster

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        trainmaster.init(params=values)

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        trainmaster.log(step or 0, **values)


def save(accelerator: Accelerator, step: int, **metrics: Any) -> None:
    """What `accelerator.save_state` writes, as a checkpoint. All processes call it."""
    accelerator.save_state(str(FOLDER))
    files.save(FOLDER, step, **metrics)


def resume(accelerator: Accelerator) -> int:
    """The step to go on from, 0 for a fresh run. All processes call it, after `accelerator.prepare`."""
    folder = Path("accelerate-resumed")
    step = files.load(folder)
    if step is None:
        return 0
    accelerator.load_state(str(folder))
    return step
