"""What a user asks of a sweep: one frozen value that is either sound or was never made."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from platform_core.jobs.fields import Field, leaves, load_fields, plain_fields, read_fields, schema_of
from platform_core.jobs.reader import Problem, Reader, SpecError, shown
from platform_core.sweeps.definition import (
    MAX_TRIALS,
    Budget,
    Method,
    Rule,
    Section,
    SweepSpec,
)
from platform_core.sweeps.space import grid

__all__ = [
    "FIELDS", "SCHEMA", "Budget", "Method", "Section", "SweepSpec", "as_mapping", "load", "load_budget", "parse",
    "read_budget",
]  # fmt: skip

FIELDS: Mapping[str, Field] = {field.name: field for field in leaves(SweepSpec)}
SCHEMA = schema_of(SweepSpec)


def parse(mapping: object) -> SweepSpec:
    """The spec of a REST body or a YAML file; SpecError of sweep_invalid with every problem when it is not sound."""
    if not isinstance(mapping, Mapping):
        raise _invalid([Problem("", f"a sweep is a mapping of fields, not {shown(mapping)}")])
    problems: list[Problem] = []
    reader = Reader(mapping, problems)
    spec: SweepSpec = read_fields(SweepSpec, reader)
    reader.refuse_the_rest()
    _check_combinations(reader, spec)
    if problems:
        raise _invalid(problems)
    return spec


def load(mapping: Mapping[str, Any]) -> SweepSpec:
    """The spec that `as_mapping` wrote, not checked again."""
    spec: SweepSpec = load_fields(SweepSpec, mapping)
    return spec


def as_mapping(spec: SweepSpec) -> dict[str, Any]:
    """The spec under its REST and YAML names; `parse` of it gives the same spec."""
    return plain_fields(spec)


def read_budget(mapping: Mapping[str, Any], earlier: Budget) -> Budget:
    """The budget with these fields changed. Raises SpecError of sweep_invalid."""
    problems: list[Problem] = []
    whole = {"budget": {**plain_fields(earlier), **mapping}}
    reader = Reader(whole, problems).nested("budget")
    budget: Budget = read_fields(Budget, reader)
    reader.refuse_the_rest()
    if problems:
        raise _invalid(problems)
    return budget


def load_budget(mapping: Mapping[str, Any]) -> Budget:
    budget: Budget = load_fields(Budget, mapping)
    return budget


def _invalid(problems: list[Problem]) -> SpecError:
    return SpecError(tuple(problems), "sweep_invalid")


def _check_combinations(read: Reader, spec: SweepSpec) -> None:
    """Rules over several fields; each keeps silent where one of its fields is refused already."""
    if not read.sound("method", "budget.trials"):
        return
    if spec.method is Method.GRID:
        _check_grid(read, spec)
    elif spec.budget.trials == 0:
        read.say("budget.trials", f"is missing; say how many settings {spec.method} may try, such as 50")
    stopping = spec.stopping
    if stopping.rule is Rule.HYPERBAND and stopping.max_steps <= stopping.min_steps:
        steps = f"is {stopping.max_steps}, not more than min_steps {stopping.min_steps}"
        read.say("early_stopping.max_steps", f"{steps}; hyperband needs the steps of a whole trial")
    if spec.method is Method.EXTERNAL or not spec.job:
        return
    hyperparameters = spec.job.get("hyperparameters")
    fixed = set(hyperparameters) if isinstance(hyperparameters, Mapping) else set()
    for name in sorted(fixed & {dimension.name for dimension in spec.space}):
        read.refuse(
            f"job.hyperparameters.{name}",
            f"job.hyperparameters.{name} is fixed and also in the search space; remove one of the two",
        )


def _check_grid(read: Reader, spec: SweepSpec) -> None:
    pointless = [dimension for dimension in spec.space if not dimension.countable and not dimension.points]
    for dimension in pointless:
        field = f"space.{dimension.name}.points"
        read.say(field, "is missing; a grid needs to know how many values to try, such as 5")
    if not pointless and next(islice(grid(spec.space), MAX_TRIALS, None), None) is not None:
        read.say("space", f"has a grid of more than {MAX_TRIALS} settings; give fewer points or values")
