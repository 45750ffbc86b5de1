"""One conformance suite for all runtimes: the same module in each form answers the same."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from platform_core.serving.runtimes import RuntimeName
from tests.sdk.serving import models
from trainmaster.serving.contract import Runtime
from trainmaster.serving.loading import load
from trainmaster.serving.runtimes.custom import LoadError

NUMBERS = itertools.count()
FORMS = [
    (RuntimeName.PYTHON, models.python),
    (RuntimeName.TORCHSCRIPT, models.torchscript),
    (RuntimeName.EXPORTED, models.exported),
    (RuntimeName.EAGER, models.eager),
]


@pytest.fixture(params=FORMS, ids=lambda form: form[0].value)
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Runtime:
    name, make = request.param
    folder = tmp_path / f"m{next(NUMBERS)}"
    folder.mkdir()
    return load(folder, name, make(folder))


ROWS = [[1.0, 0.0, 0.0], [0.0, 1.0, 2.0], [3.0, -1.0, 0.5]]
ANSWERS = [[1.0, 0.5], [8.0, -2.0], [2.5, 1.0]]


def test_a_row_gets_its_own_output(runtime: Runtime) -> None:
    outputs = runtime.predict([runtime.prepare(row) for row in ROWS])
    np.testing.assert_allclose(np.asarray(outputs), ANSWERS, rtol=1e-6)


def test_a_row_alone_gets_the_same_as_in_a_batch(runtime: Runtime) -> None:
    for row, answer in zip(ROWS, ANSWERS, strict=True):
        [output] = runtime.predict([runtime.prepare(row)])
        np.testing.assert_allclose(np.asarray(output), answer, rtol=1e-6)


def test_rows_of_one_length_share_a_batch(runtime: Runtime) -> None:
    shapes = {runtime.shape_of(runtime.prepare(row)) for row in ROWS}
    assert len(shapes) == 1


def test_a_failure_leaves_it_able_to_go_on(runtime: Runtime) -> None:
    with pytest.raises(Exception, match=r"."):
        runtime.predict([runtime.prepare([1.0]), runtime.prepare([1.0, 2.0])] if not isinstance(
            runtime.prepare([1.0]), list) else ["bad"])  # fmt: skip
    assert len(runtime.predict([runtime.prepare(ROWS[0])])) == 1


@pytest.mark.parametrize(
    ("make", "runtime"), [(models.torchscript, "torchscript"), (models.exported, "exported")]
)
def test_the_files_of_a_folder_say_its_runtime(
    make: Callable[[Path], str], runtime: str, tmp_path: Path
) -> None:
    make(tmp_path)
    loaded = load(tmp_path, RuntimeName.AUTO, "")
    [output] = loaded.predict([loaded.prepare(ROWS[0])])
    np.testing.assert_allclose(output, ANSWERS[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("runtime", "entry", "sentence"),
    [
        ("auto", "", "has no model.py"),
        ("python", "missing_module:Model", "There is no module missing_module"),
        ("python", "nonsense", "must be module:name"),
        ("torchscript", "", "has 0 files .pt or .ts"),
        ("eager", "tests.sdk.serving.models:module_of_none", "has no module_of_none"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_a_remedy(
    runtime: str, entry: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(LoadError, match=sentence):
        load(tmp_path, RuntimeName(runtime), entry)
