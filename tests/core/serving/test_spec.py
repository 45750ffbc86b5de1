"""What an endpoint may ask for."""

import pytest

from platform_core.jobs.reader import SpecError
from platform_core.serving.runtimes import RuntimeName
from platform_core.serving.spec import as_mapping, load, parse

MAPPING = {"name": "mlp", "team": "vision", "model": "mlp", "gpu_type": "cpu"}


def test_one_that_was_kept_before_a_field_came_has_its_default() -> None:
    kept = as_mapping(parse(MAPPING))
    old = load({name: value for name, value in kept.items() if name not in ("gpus", "compile")})
    assert (old.gpus, old.compile) == (1, False)


@pytest.mark.parametrize("gpus", [0, 65, "two"])
def test_a_replica_has_a_number_of_gpus_that_a_node_may_have(gpus: object) -> None:
    with pytest.raises(SpecError, match="gpus"):
        parse(MAPPING | {"gpus": gpus})
    assert parse(MAPPING | {"gpus": 64}).gpus == 64


@pytest.mark.parametrize("runtime", RuntimeName)
def test_only_modules_are_compiled(runtime: RuntimeName) -> None:
    mapping = MAPPING | {"runtime": runtime.value, "compile": True}
    if runtime in (RuntimeName.EAGER, RuntimeName.EXPORTED):
        assert parse(mapping).compile
    else:
        with pytest.raises(SpecError, match="choose eager or exported"):
            parse(mapping)
