from __future__ import annotations

import pickle
import string

import grpc
import pytest

from platform_core.errors import CATALOGUE, IllegalTransition, TrainmasterError
from platform_core.jobs.spec import Problem, SpecError


def test_every_kind_maps_to_real_statuses():
    for kind in CATALOGUE.values():
        assert 400 <= kind.http < 600
        assert hasattr(grpc.StatusCode, kind.grpc)
        assert kind.title
        assert kind.sentence


def test_the_sentence_is_made_of_the_numbers():
    error = TrainmasterError("quota_exceeded", wanted=12, maximum=8, gpu_type="a100-80gb")
    assert str(error) == error.sentence == "would exceed quota: 12/8 GPUs of a100-80gb"
    assert error.numbers == {"wanted": 12, "maximum": 8, "gpu_type": "a100-80gb"}
    assert error.kind.http == 409


def test_a_missing_number_does_not_hide_the_error():
    for code, kind in CATALOGUE.items():
        fields = [field for _, field, _, _ in string.Formatter().parse(kind.sentence) if field]
        assert str(TrainmasterError(code)).count("?") == len(fields)


def test_an_own_sentence_replaces_the_template():
    assert str(TrainmasterError("not_found", "No such team: {x}")) == "No such team: {x}"


def test_an_unknown_code_is_a_mistake_of_the_program():
    with pytest.raises(ValueError, match="'oops' is not in the catalogue"):
        TrainmasterError("oops")


@pytest.mark.parametrize(
    "error",
    [
        TrainmasterError("not_found", what="job job-1"),
        IllegalTransition("job-1", "running", "Placed", "job-1 is running"),
        SpecError((Problem("name", "name is missing"), Problem("team", "team is missing"))),
    ],
)
def test_errors_cross_process_borders_whole(error: TrainmasterError):
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert (str(back), vars(back)) == (str(error), vars(error))
