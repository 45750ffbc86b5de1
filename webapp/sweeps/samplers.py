"""Who chooses the next setting: the grid, chance, or Optuna, which learns from the trials so far.

`propose` is a function of the spec, the trials and the number of the next one: the same in every process and after
every crash. For Optuna a study is made anew in memory from the trials each time; no second database keeps anything.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from random import Random
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as StudyState

from platform_core.errors import TrainmasterError
from platform_core.sweeps.definition import Goal, Method, SweepSpec
from platform_core.sweeps.space import WHOLE, Dimension, DimensionKind, Parameters, draw, grid
from platform_core.sweeps.states import Trial, TrialState

optuna.logging.set_verbosity(optuna.logging.ERROR)

STARTUP_TRIALS = 8  # drawn by chance before a sampler learns
_NEEDS = {Method.GP: ("torch", "scipy"), Method.CMAES: ("cmaes",)}
_STATES = {
    TrialState.SUCCEEDED: StudyState.COMPLETE,
    TrialState.PRUNED: StudyState.PRUNED,
    TrialState.FAILED: StudyState.FAIL,
    TrialState.CANCELLED: StudyState.FAIL,
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """`notes` is what the sampler wants to find again beside this trial: CMA-ES keeps its state there."""

    parameters: Parameters
    notes: Mapping[str, Any] = field(default_factory=dict)


Notes = Mapping[int, Mapping[str, Any]]  # trial number → notes of its proposal


def check_installed(method: Method) -> None:
    """Raises request_invalid where this installation lacks what the method needs."""
    missing = [name for name in _NEEDS.get(method, ()) if find_spec(name) is None]
    if missing:
        packages = " and ".join(missing)
        why = f"it needs {packages}, not installed on the server; choose tpe, or: pip install {' '.join(missing)}"
        raise TrainmasterError("request_invalid", what=f"the method {method}", why=why)


def propose(spec: SweepSpec, trials: Sequence[Trial], notes: Notes, number: int) -> Proposal | None:
    """The setting of trial `number`; None when a grid has no more."""
    if spec.method is Method.GRID:
        parameters = next(islice(grid(spec.space), number - 1, None), None)
        return None if parameters is None else Proposal(parameters)
    chance = Random(f"{spec.seed}:{number}")
    if spec.method not in _SAMPLERS:
        return Proposal(draw(spec.space, chance.random))
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of experimental samplers, and of a step that does not divide its range
        return _asked(spec, trials, notes, chance.getrandbits(32))


def _asked(spec: SweepSpec, trials: Sequence[Trial], notes: Notes, seed: int) -> Proposal:
    known = {dimension.name: _distribution(dimension) for dimension in spec.space}
    study = _study(spec, trials, notes, _SAMPLERS[spec.method](seed, spec))
    asked = study.ask()
    parameters: Parameters = {}
    for dimension in spec.space:
        if dimension.active(parameters):
            value = asked._suggest(dimension.name, known[dimension.name])
            parameters[dimension.name] = float(f"{value:.12g}") if isinstance(value, float) else value
    return Proposal(parameters, dict(study._storage.get_trial_system_attrs(asked._trial_id)))


def _study(
    spec: SweepSpec, trials: Sequence[Trial], notes: Notes, sampler: optuna.samplers.BaseSampler | None
) -> optuna.Study:
    known = {dimension.name: _distribution(dimension) for dimension in spec.space}
    minimize = spec.objective.goal is Goal.MINIMIZE
    study = optuna.create_study(direction="minimize" if minimize else "maximize", sampler=sampler)
    study.add_trials([_frozen(trial, known, notes.get(trial.number, {})) for trial in trials])
    return study


def _frozen(trial: Trial, known: Mapping[str, BaseDistribution], notes: Mapping[str, Any]) -> FrozenTrial:
    state = _STATES.get(trial.state, StudyState.RUNNING)
    parameters = dict(trial.parameters)
    if not all(known[name]._contains(known[name].to_internal_repr(at)) for name, at in parameters.items()):
        parameters, state = {}, StudyState.FAIL  # a person chose a value between the steps
    return create_trial(
        state=state,
        value=trial.value if state is StudyState.COMPLETE else None,
        params=parameters,
        distributions={name: known[name] for name in parameters},
        intermediate_values=dict(trial.reports),
        system_attrs=dict(notes),
    )


def _distribution(dimension: Dimension) -> BaseDistribution:
    if dimension.kind is DimensionKind.CHOICE:
        return CategoricalDistribution(dimension.values)
    if dimension.kind in WHOLE:
        low, high, step = int(dimension.low), int(dimension.high), int(dimension.step) or 1
        return IntDistribution(low, high, log=dimension.logarithmic, step=step)
    return FloatDistribution(
        dimension.low, dimension.high, log=dimension.logarithmic, step=dimension.step or None
    )


class _CmaEs(optuna.samplers.CmaEsSampler):
    """Over the numbers that every setting has; its state cannot follow a space that grows with the trials."""

    def __init__(self, seed: int, spec: SweepSpec) -> None:
        super().__init__(seed=seed, with_margin=True)
        numbers = (d for d in spec.space if d.kind is not DimensionKind.CHOICE and not d.parent)
        self._numbers = {dimension.name: _distribution(dimension) for dimension in numbers}

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, BaseDistribution]:
        return self._numbers


def _tpe(seed: int, spec: SweepSpec) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(
        seed=seed, multivariate=True, group=True, constant_liar=True, n_startup_trials=STARTUP_TRIALS
    )


def _gp(seed: int, spec: SweepSpec) -> optuna.samplers.BaseSampler:
    return optuna.samplers.GPSampler(seed=seed, n_startup_trials=STARTUP_TRIALS)


_SAMPLERS: dict[Method, Callable[[int, SweepSpec], optuna.samplers.BaseSampler]] = {
    Method.TPE: _tpe,
    Method.GP: _gp,
    Method.CMAES: _CmaEs,
}
