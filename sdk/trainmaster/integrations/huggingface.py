"""For the Trainer of Hugging Face Transformers.

    trainer = Trainer(model, arguments, callbacks=[TrainmasterCallback()], …)
    trainer.train(resume_from_checkpoint=resume(arguments.output_dir))

Set `save_strategy="no"` and `report_to="none"`: the platform decides when to save, and metrics go to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

import trainmaster
from trainmaster.integrations import files


class TrainmasterCallback(TrainerCallback):
    """Logs, saves when a checkpoint is due, and ends the training when the platform stops the job."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        trainmaster.init(total_steps=state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        numbers = {name: value for name, value in (logs or {}).items() if isinstance(value, int | float)}
        trainmaster.log(state.global_step, **numbers)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        due = trainmaster.checkpoint_due(state.global_step, every=int(args.save_steps))
        if trainmaster.should_stop():
            control.should_training_stop = due = True
        control.should_save = due or state.global_step >= state.max_steps
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        files.save(_folder(args.output_dir, state.global_step), state.global_step)


def resume(output_dir: str | Path) -> str | None:
    """The checkpoint to go on from, as files of the Trainer; None for a fresh run. All ranks call it."""
    folder = Path(output_dir) / "resumed"
    step = files.load(folder)
    return None if step is None else str(folder)


def _folder(output_dir: str, step: int) -> Path:
    return Path(output_dir) / f"checkpoint-{step}"
