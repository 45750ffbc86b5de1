"""One conformance suite for all runtimes: the same module in each form answers the same."""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from platform_core.serving.runtimes import RuntimeName
from tests.sdk.serving import models
from tests.sdk.serving.processes import STAND_IN
from trainmaster.serving.contract import Runtime, Tensor
from trainmaster.serving.loading import load
from trainmaster.serving.runtimes.custom import LoadError

NUMBERS = itertools.count()
FORMS = {
    "python": (RuntimeName.PYTHON, models.python, False),
    "torchscript": (RuntimeName.TORCHSCRIPT, models.torchscript, False),
    "exported": (RuntimeName.EXPORTED, models.exported, False),
    "exported-compiled": (RuntimeName.EXPORTED, models.exported, True),
    "eager": (RuntimeName.EAGER, models.eager, False),
    "eager-compiled": (RuntimeName.EAGER, models.eager, True),
    "onnx": (RuntimeName.ONNX, models.onnx, False),
}


@pytest.fixture(autouse=True)
def onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed one is found first."""
    monkeypatch.setattr(sys, "path", [*sys.path, STAND_IN])


@pytest.fixture(params=FORMS)
def runtime(request: pytest.FixtureRequest, tmp_path: Path, onnxruntime: None) -> Runtime:
    name, make, compiled = FORMS[request.param]
    folder = tmp_path / f"m{next(NUMBERS)}"
    folder.mkdir()
    return load(folder, name, make(folder), compiled)


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


@pytest.mark.parametrize("make", [models.exported, models.onnx])
def test_a_form_that_has_its_shapes_says_them(make: Callable[[Path], str], tmp_path: Path) -> None:
    make(tmp_path)
    loaded = load(tmp_path, RuntimeName.AUTO, "")
    assert [(one.datatype, one.shape) for one in loaded.inputs] == [("FP32", (-1, 3))]
    assert [(one.datatype, one.shape) for one in loaded.outputs] == [("FP32", (-1, 2))]
    assert loaded.inputs[0] == Tensor("x", "FP32", (-1, 3))


def test_a_python_without_onnx_runtime_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models.onnx(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "trainmaster.serving.runtimes.onnx_models", raising=False)
    with pytest.raises(LoadError, match="needs onnxruntime, which this Python does not have"):
        load(tmp_path, RuntimeName.AUTO, "")


@pytest.mark.parametrize("form", ["python", "torchscript", "onnx"])
def test_a_form_that_is_not_compiled_says_so(form: str, tmp_path: Path) -> None:
    name, make, _ = FORMS[form]
    with pytest.raises(LoadError, match=f"The runtime {name} is not compiled"):
        load(tmp_path, name, make(tmp_path), True)


def test_a_file_that_is_no_onnx_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\x08\x01")
    with pytest.raises(LoadError, match=r"ONNX Runtime cannot load model\.onnx"):
        load(tmp_path, RuntimeName.AUTO, "")


@pytest.mark.parametrize(
    ("make", "runtime"),
    [(models.torchscript, "torchscript"), (models.exported, "exported"), (models.onnx, "onnx")],
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
        ("onnx", "other.onnx", "has no file other.onnx"),
        ("eager", "tests.sdk.serving.models:module_of_none", "has no module_of_none"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_a_remedy(
    runtime: str, entry: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(LoadError, match=sentence):
        load(tmp_path, RuntimeName(runtime), entry)


@pytest.mark.parametrize("make", [models.exported, models.onnx])
def test_a_row_of_another_shape_is_refused_before_it_reaches_the_model(
    make: Callable[[Path], str], tmp_path: Path
) -> None:
    make(tmp_path)
    loaded = load(tmp_path, RuntimeName.AUTO, "")
    for row in ([1.0, 2.0], [[1.0, 2.0, 3.0]], 1.0):
        with pytest.raises(ValueError, match=r"this model takes \[3\]"):
            loaded.prepare(row)
