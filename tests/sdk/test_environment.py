from pathlib import Path

import pytest

from platform_core.errors import TrainmasterError
from trainmaster.environment import JobEnvironment, client_environment, job_environment, serving_environment


def test_a_laptop_tells_nothing_and_gets_the_defaults() -> None:
    assert job_environment({}) == JobEnvironment()


def test_the_agent_tells_all_that_a_rank_needs() -> None:
    told = job_environment(
        {
            "TRAINMASTER_ATTEMPT": "att-1",
            "TRAINMASTER_JOB": "job-1",
            "TRAINMASTER_DIR": "/a",
            "TRAINMASTER_RESUME": "/a/resume",
            "TRAINMASTER_DATA": "/a/data",
            "TRAINMASTER_CHECKPOINT_PATH": "out/saved",
            "TRAINMASTER_CHECKPOINT_INTERVAL_STEPS": "50",
            "TRAINMASTER_CHECKPOINT_INTERVAL_SECONDS": "600",
            "TRAINMASTER_CHECKPOINT_KEEP": "2",
            "TRAINMASTER_SEED": "0",
            "TRAINMASTER_HYPERPARAMETERS": '{"lr": 0.1, "name": "x"}',
            "RANK": "3",
            "LOCAL_RANK": "1",
            "WORLD_SIZE": "4",
        }
    )
    assert told == JobEnvironment(
        folder=Path("/a"),
        attempt="att-1",
        job="job-1",
        resume="/a/resume",
        data=Path("/a/data"),
        checkpoint_path="out/saved",
        interval_steps=50,
        interval_seconds=600,
        keep_last=2,
        seed=0,
        hyperparameters={"lr": 0.1, "name": "x"},
        rank=3,
        local_rank=1,
        world_size=4,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRAINMASTER_SEED", "seven"),
        ("TRAINMASTER_CHECKPOINT_KEEP", "-1"),
        ("TRAINMASTER_HYPERPARAMETERS", "lr=1"),
        ("TRAINMASTER_HYPERPARAMETERS", "[1]"),
    ],
)
def test_a_value_without_sense_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(TrainmasterError, match=name):
        job_environment({name: value})


def test_the_config_file_of_the_cli_lies_where_the_user_wants_it() -> None:
    told = client_environment({"XDG_CONFIG_HOME": "/c", "TRAINMASTER_URL": "http://p"})
    assert (told.url, told.token, told.config_file) == ("http://p", "", Path("/c/trainmaster/config.toml"))


def test_the_serving_target_of_a_job_is_read_and_absent_without_one() -> None:
    given = {"TRAINMASTER_SERVING_CONSTRAINTS": '{"name": "edge", "max_latency_ms": 5, "formats": ["onnx"]}'}
    target = serving_environment(given)
    assert target is not None
    assert (target.name, target.max_latency_ms, target.formats) == ("edge", 5, {"onnx"})
    assert serving_environment({}) is None


@pytest.mark.parametrize("text", ["edge", "[]", "{}", '{"name": "edge", "max_latency_ms": "5"}'])
def test_constraints_that_cannot_be_read_are_refused_before_training(text: str) -> None:
    with pytest.raises(TrainmasterError):
        serving_environment({"TRAINMASTER_SERVING_CONSTRAINTS": text})
