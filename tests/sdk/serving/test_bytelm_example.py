"""The example that the demo serves: a checkpoint of bytelm completes a text."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from trainmaster.run import Run
from trainmaster.serving.runtimes.custom import CustomRuntime

EXAMPLE = Path(__file__).parents[3] / "examples" / "bytelm"


@pytest.fixture
def model(
    on_a_laptop: Callable[[], Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CustomRuntime]:
    """An untrained one, from a checkpoint that a laptop saved."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import train  # type: ignore[import-not-found]

    config = train.Config(context=16, layers=1, width=16, heads=2)
    state = {"model": train.ByteGPT(config).state_dict(), "config": asdict(config)}
    on_a_laptop().save_checkpoint(state, 1, {}, blocking=True)
    [folder] = tmp_path.glob("trainmaster-runs/train-1/checkpoints/*")
    yield CustomRuntime(folder, "serve:Model")
    for name in ("train", "prepare", "serve"):
        sys.modules.pop(name, None)


def completed(model: CustomRuntime, **changes: Any) -> str:
    row = {"prompt": "def ", "max_tokens": 16, "temperature": 1.0, "stop": [], "seed": 3} | changes
    return "".join(model.stream(row))


def test_a_text_is_completed_the_same_for_the_same_seed(model: CustomRuntime) -> None:
    text = completed(model)
    assert 0 < len(text) <= 16
    assert completed(model) == text
    assert completed(model, seed=4) != text
    assert completed(model, temperature=0.0) == completed(model, temperature=0.0, seed=9)


def test_it_ends_before_what_stops_it_and_begins_from_nothing(model: CustomRuntime) -> None:
    text = completed(model, prompt="")
    assert completed(model, prompt="", stop=[text[5]]) == text[: text.index(text[5])]
