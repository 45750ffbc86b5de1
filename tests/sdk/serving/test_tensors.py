"""Tensors over gRPC are the bytes of the HTTP form, whichever way they are sent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trainmaster.serving.tensors import DTYPES, tensor_answer, tensor_rows
from trainmaster_wire.inference.tensors import CONTENTS, body_of, response_of
from trainmaster_wire.inference.v2 import open_inference_pb2 as wire

TENSORS = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        arrays.arrays(np.dtype(DTYPES[name]), arrays.array_shapes(max_dims=3, max_side=4)).filter(
            lambda array: not np.isnan(array.astype("f8")).any()
        ),
    )
)


def request_of(name: str, array: np.ndarray, raw: bool) -> wire.ModelInferRequest:
    request = wire.ModelInferRequest(model_name="m", id="7")
    tensor = request.inputs.add(name="x", datatype=name, shape=array.shape)
    if raw:
        request.raw_input_contents.append(array.tobytes())
    else:
        getattr(tensor.contents, CONTENTS[name][0]).extend(array.ravel().tolist())
    return request


@given(TENSORS, st.booleans())
def test_a_tensor_comes_back_as_it_was_sent(tensor: tuple[str, np.ndarray], raw: bool) -> None:
    name, array = tensor
    raw = raw or name not in CONTENTS
    document, rows = tensor_rows(*body_of(request_of(name, array, raw)))
    np.testing.assert_array_equal(np.stack(rows), array)
    answer = response_of(*tensor_answer(document, "m", "3", rows, binary=True), raw=raw)
    assert (answer.id, answer.outputs[0].datatype, tuple(answer.outputs[0].shape)) == ("7", name, array.shape)
    if raw:
        assert answer.raw_output_contents[0] == array.tobytes()
    else:
        numbers = getattr(answer.outputs[0].contents, CONTENTS[name][0])
        np.testing.assert_array_equal(np.array(list(numbers), array.dtype), array.ravel())


def test_numbers_that_do_not_fit_are_refused() -> None:
    request = request_of("INT8", np.array([1], "i1"), raw=False)
    request.inputs[0].contents.int_contents[0] = 300
    with pytest.raises(ValueError, match="no INT8"):
        body_of(request)
    request.inputs[0].datatype = "FP16"
    with pytest.raises(ValueError, match="raw_input_contents"):
        body_of(request)
