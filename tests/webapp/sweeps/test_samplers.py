"""The setting of a trial depends on the sweep, the trials so far and its number, and on nothing else."""

from typing import Any

import pytest

from platform_core.errors import TrainmasterError
from platform_core.sweeps import spec as specs
from platform_core.sweeps.definition import Method, SweepSpec
from platform_core.sweeps.states import Trial, TrialState
from tests.webapp.sweeps.conftest import FIELDS
from webapp.sweeps import samplers

LEARNING = (Method.TPE, Method.GP, Method.CMAES)
SPACE = {
    "lr": {"type": "log_uniform", "low": 1e-4, "high": 1e-1},
    "layers": {"type": "integer", "low": 8, "high": 64},
}


def spec_of(method: Method, seed: int) -> SweepSpec:
    return specs.parse({**FIELDS, "method": method, "seed": seed, "space": SPACE, "budget": {"trials": 40}})


def history(spec: SweepSpec, count: int) -> tuple[list[Trial], dict[int, Any]]:
    trials: list[Trial] = []
    notes: dict[int, Any] = {}
    for number in range(1, count + 1):
        proposal = samplers.propose(spec, trials, notes, number)
        assert proposal is not None
        parameters = tuple(sorted(proposal.parameters.items()))
        value = abs(proposal.parameters["lr"] - 0.01) + proposal.parameters["layers"] / 1000
        trials.append(Trial(number=number, parameters=parameters, state=TrialState.SUCCEEDED, value=value))
        notes[number] = proposal.notes
    return trials, notes


@pytest.mark.parametrize("method", [Method.RANDOM, *LEARNING])
def test_the_same_seed_and_results_give_the_same_settings(method: Method) -> None:
    spec = spec_of(method, 7)
    first, again = history(spec, samplers.STARTUP_TRIALS + 1), history(spec, samplers.STARTUP_TRIALS + 1)
    assert [trial.parameters for trial in first[0]] == [trial.parameters for trial in again[0]]


@pytest.mark.parametrize("method", [Method.RANDOM, *LEARNING])
def test_another_seed_gives_other_settings(method: Method) -> None:
    seven, eight = (history(spec_of(method, seed), 2)[0] for seed in (7, 8))
    assert [trial.parameters for trial in seven] != [trial.parameters for trial in eight]


@pytest.mark.parametrize(("method", "packages"), [(Method.GP, "torch scipy"), (Method.CMAES, "cmaes")])
def test_a_method_whose_packages_are_missing_is_refused_with_the_command_that_installs_them(
    method: Method, packages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samplers, "find_spec", lambda name: None)
    with pytest.raises(TrainmasterError) as refused:
        samplers.check_installed(method)
    names = packages.replace(" ", " and ")
    assert f"it needs {names}, not installed on the server; choose tpe" in refused.value.sentence
    assert f"pip install {packages}" in refused.value.sentence


def test_a_method_without_needs_is_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "find_spec", lambda name: None)
    samplers.check_installed(Method.TPE)
