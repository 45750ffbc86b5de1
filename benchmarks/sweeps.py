"""GPU time until a search has found a setting within 1 % of the best, on recorded learning curves.

    python -m benchmarks.sweeps [--seeds 20]

The curves are of bytelm in 200 settings (`python -m benchmarks.sweep_curves` made them). One trial runs at a time; a
trial that is pruned at a rung costs what it ran. A setting that ran to its end is known and costs nothing again; one
that was pruned is left out until every setting was tried. A line for each search:
`{measure: "sweep", search, gpu_seconds (median), mean, p25, p75, of_random, seeds}`; those named optuna_… are Optuna's
own samplers and pruners on the same curves. The last line is `{measure: "sweep_best", search, of_random, bound}`.
"""

import argparse
import json
import statistics
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import optuna

from benchmarks.sweep_curves import CURVES, EVALUATIONS, SPACE
from platform_core.sweeps import spec as specification
from platform_core.sweeps import states as ev
from platform_core.sweeps.stopping import next_rung
from platform_core.sweeps.transitions import advance, begin
from webapp.sweeps.samplers import propose

BOUND = 0.35
NEAR = 1.01
MOST_PROPOSALS = 1_500
Setting = tuple[int, ...]  # index of the value of each parameter


@dataclass
class Table:
    """The recorded settings; `seconds` is the whole time of each."""

    curves: dict[Setting, list[float]]
    seconds: dict[Setting, float]

    @property
    def goal(self) -> float:
        return NEAR * min(curve[-1] for curve in self.curves.values())


@dataclass
class Bill:
    """What one search has run so far."""

    table: Table
    seconds: float = 0.0
    whole: set[Setting] = field(default_factory=set)
    pruned: set[Setting] = field(default_factory=set)

    def skips(self, setting: Setting) -> bool:
        return setting in self.pruned and len(self.whole | self.pruned) < len(self.table.curves)

    def pay(self, setting: Setting, steps: int) -> None:
        """For a trial that ran so many steps; the end of a curve is never pruned."""
        if setting not in self.whole:
            self.seconds += self.table.seconds[setting] * steps / EVALUATIONS
        (self.whole if steps == EVALUATIONS else self.pruned).add(setting)

    @property
    def reached(self) -> bool:
        return any(self.table.curves[setting][-1] <= self.table.goal for setting in self.whole)


def read() -> Table:
    trials = json.loads(CURVES.read_text())["trials"]
    places = {tuple(SPACE[name].index(trial["setting"][name]) for name in SPACE): trial for trial in trials}
    return Table(
        {place: trial["curve"] for place, trial in places.items()},
        {place: trial["seconds"] for place, trial in places.items()},
    )


def ours(method: str, rule: str) -> Callable[[Table, int], float]:
    """A sweep of ours: its machine, its samplers and its early stopping."""

    def search(table: Table, seed: int) -> float:
        space = {
            name: {"type": "integer", "low": 0, "high": len(values) - 1} for name, values in SPACE.items()
        }
        stopping = {"rule": rule, "min_steps": 1, "max_steps": EVALUATIONS, "eta": 3}
        spec = specification.parse(
            {"name": "b", "team": "b", "method": method, "seed": seed, "space": space, "parallel": 1,
             "objective": {"metric": "bits"}, "early_stopping": stopping, "budget": {"trials": MOST_PROPOSALS}}
        )  # fmt: skip
        sweep, bill = begin("sweep-b", spec, 0), Bill(table)
        notes: dict[int, dict[str, Any]] = {}
        settings = shuffled_grid(seed) if method == "grid" else None
        for number in range(1, MOST_PROPOSALS + 1):
            if settings is not None:
                parameters = dict(zip(SPACE, next(settings), strict=True))
            else:
                proposal = propose(spec, sweep.trials, notes, number)
                assert proposal is not None
                parameters = {name: int(value) for name, value in proposal.parameters.items()}
            setting = tuple(parameters[name] for name in SPACE)
            if bill.skips(setting):
                continue
            trial = len(sweep.trials) + 1
            for event in (
                ev.Proposed(at_ms=0, number=trial, parameters=tuple(sorted(parameters.items()))),
                ev.TrialSubmitted(at_ms=0, number=trial, job=""),
            ):
                sweep = advance(sweep, event).sweep
            sweep, steps = run(sweep, trial, table.curves[setting])
            bill.pay(setting, steps)
            if bill.reached:
                return bill.seconds
        return bill.seconds

    return search


def run(sweep: ev.Sweep, number: int, curve: list[float]) -> tuple[ev.Sweep, int]:
    """The sweep after its trial, and the steps that the trial ran."""
    rung = next_rung(sweep.spec.stopping, number, 0)
    while rung is not None and rung < EVALUATIONS:
        report = ev.TrialReported(at_ms=0, number=number, reports=((rung, curve[rung - 1]),))
        sweep = advance(sweep, report).sweep
        if sweep.trials[number - 1].ended:
            return sweep, rung
        rung = next_rung(sweep.spec.stopping, number, rung)
    outcome = ev.TrialState.SUCCEEDED
    ended = ev.TrialEnded(at_ms=0, number=number, outcome=outcome, value=curve[-1], step=EVALUATIONS)
    return advance(sweep, ended).sweep, EVALUATIONS


def shuffled_grid(seed: int) -> Iterator[Setting]:
    """A grid from an arbitrary corner, one parameter after the other: nobody knows the good corner."""
    chance = Random(seed)
    order = chance.sample(range(len(SPACE)), len(SPACE))
    ranges = [list(range(len(values))) for values in SPACE.values()]
    for indices in ranges:
        if chance.random() < 0.5:
            indices.reverse()
    settings = [(a, b, c) for a in ranges[0] for b in ranges[1] for c in ranges[2]]
    place = [{index: at for at, index in enumerate(indices)} for indices in ranges]
    yield from sorted(settings, key=lambda setting: [place[which][setting[which]] for which in order])


def theirs(sampler: Callable[[int], Any], pruner: Callable[[], Any]) -> Callable[[Table, int], float]:
    """Optuna alone, with its ask-and-tell."""

    def search(table: Table, seed: int) -> float:
        study = optuna.create_study(sampler=sampler(seed), pruner=pruner(), study_name=f"s{seed}")
        bill = Bill(table)
        for _ in range(MOST_PROPOSALS):
            trial = study.ask()
            setting = tuple(trial.suggest_int(name, 0, len(values) - 1) for name, values in SPACE.items())
            if bill.skips(setting):
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            steps, state = EVALUATIONS, optuna.trial.TrialState.COMPLETE
            for step, value in enumerate(table.curves[setting], 1):
                trial.report(value, step)
                if step < EVALUATIONS and trial.should_prune():
                    steps, state = step, optuna.trial.TrialState.PRUNED
                    break
            complete = state is optuna.trial.TrialState.COMPLETE
            study.tell(trial, table.curves[setting][-1] if complete else None, state=state)
            bill.pay(setting, steps)
            if bill.reached:
                break
        return bill.seconds

    return search


def _random(seed: int) -> Any:
    return optuna.samplers.RandomSampler(seed=seed)


def _tpe(seed: int) -> Any:
    return optuna.samplers.TPESampler(seed=seed)


def _halving() -> Any:
    return optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)


def _hyperband() -> Any:
    return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=EVALUATIONS, reduction_factor=3)


SEARCHES: dict[str, Callable[[Table, int], float]] = {
    "random": ours("random", "none"),
    "grid": ours("grid", "none"),
    "tpe": ours("tpe", "none"),
    "asha": ours("random", "asha"),
    "hyperband": ours("random", "hyperband"),
    "median": ours("random", "median"),
    "tpe+asha": ours("tpe", "asha"),
    "tpe+hyperband": ours("tpe", "hyperband"),
    "tpe+median": ours("tpe", "median"),
    "optuna_random+halving": theirs(_random, _halving),
    "optuna_random+hyperband": theirs(_random, _hyperband),
    "optuna_random+median": theirs(_random, optuna.pruners.MedianPruner),
    "optuna_tpe": theirs(_tpe, optuna.pruners.NopPruner),
    "optuna_tpe+halving": theirs(_tpe, _halving),
    "optuna_tpe+hyperband": theirs(_tpe, _hyperband),
    "optuna_tpe+median": theirs(_tpe, optuna.pruners.MedianPruner),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    table, medians = read(), {}
    for name, search in SEARCHES.items():
        seconds = sorted(search(table, seed) for seed in range(seeds))
        medians[name] = statistics.median(seconds)
        line = {
            "measure": "sweep", "search": name, "gpu_seconds": round(medians[name], 1),
            "mean": round(statistics.mean(seconds), 1),
            "p25": round(seconds[seeds // 4], 1), "p75": round(seconds[3 * seeds // 4], 1),
            "of_random": round(medians[name] / medians["random"], 3), "seeds": seeds,
        }  # fmt: skip
        print(json.dumps(line), flush=True)
    best = min((name for name in medians if not name.startswith("optuna_")), key=medians.__getitem__)
    share = round(medians[best] / medians["random"], 3)
    print(json.dumps({"measure": "sweep_best", "search": best, "of_random": share, "bound": BOUND}))


if __name__ == "__main__":
    main()
