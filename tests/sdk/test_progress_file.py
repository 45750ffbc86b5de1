"""The progress file of a rank."""

import json
from pathlib import Path

from trainmaster.progress import LOADING, SAVING, Progress


class Clock:
    now_ms = 10_000

    def __call__(self) -> int:
        return self.now_ms


def said(folder: Path) -> object:
    return json.loads((folder / "progress" / "3").read_text())


def test_a_step_is_written_at_most_once_a_second(tmp_path: Path) -> None:
    clock = Clock()
    progress = Progress(tmp_path, 3, clock)
    progress.note(1)
    clock.now_ms += 999
    progress.note(2)
    assert said(tmp_path) == {"step": 1, "at_ms": 10_000, "doing": "step", "made": 1}
    clock.now_ms += 1
    progress.note(3)
    assert said(tmp_path) == {"step": 3, "at_ms": 11_000, "doing": "step", "made": 3}
    assert [path.name for path in (tmp_path / "progress").iterdir()] == ["3"]


def test_a_save_is_told_at_once_and_so_is_its_end(tmp_path: Path) -> None:
    progress = Progress(tmp_path, 3, Clock())
    progress.note(5)
    progress.note(5, SAVING)
    assert said(tmp_path) == {"step": 5, "at_ms": 10_000, "doing": "saving", "made": 1}
    progress.note()
    assert said(tmp_path) == {"step": 5, "at_ms": 10_000, "doing": "step", "made": 1}


def test_after_a_resume_only_the_steps_of_this_start_are_made(tmp_path: Path) -> None:
    progress = Progress(tmp_path, 3, Clock())
    progress.note(doing=LOADING)
    for step in (5_001, 5_001, 5_002):
        progress.note(step)
    progress.note(doing=SAVING)
    assert said(tmp_path) == {"step": 5_002, "at_ms": 10_000, "doing": "saving", "made": 2}


def test_after_the_last_step_it_is_done(tmp_path: Path) -> None:
    progress = Progress(tmp_path, 3, Clock())
    progress.total_steps = 9
    progress.note(7)
    progress.note(8)
    assert said(tmp_path) == {"step": 8, "at_ms": 10_000, "doing": "done", "made": 2}


def test_a_folder_that_is_gone_costs_the_training_nothing(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "gone", 3, Clock())
    progress.note(1)
    progress.note(2)
    Progress(None, 0, Clock()).note(1)
