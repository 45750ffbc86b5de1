"""A transfer to very many machines, simulated: `python -m benchmarks.distribution_sim --workers 1000`.

The planners and the swarm functions are those that production uses; only the fabric is simulated. One JSON line for
each strategy. `ratio` is the last worker's time over the bound for healthy workers; `healthy_ratio`, `slow_ratio` and
`returned_ratio` compare each class with its own floor. `--original` prints the table of the original design instead:
100 workers by its arithmetic, by ours and simulated, then with smaller pieces and by the mesh.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import click

from platform_core.distribution.planning import estimate, mesh, strategies
from platform_core.distribution.planning.estimate import Conditions
from platform_core.distribution.planning.forest import STORE, Forest, depths
from platform_core.distribution.planning.routes import Place
from platform_core.simulation.fabric.transfer import Fabric, Failure, Outcome, Scenario

GBPS_10 = 1_250_000_000
AWAY_MS = 60_000
STRATEGIES = ("mesh", "mesh_rack_blind", *estimate.STRATEGIES)


def places_of(workers: int, racks: int) -> tuple[Place, ...]:
    return tuple(Place(f"n{n:05}", f"r{n * racks // workers:04}") for n in range(workers))


def forest_for(strategy: str, places: tuple[Place, ...], lanes: int | None, rng: random.Random) -> Forest:
    if strategy == "mesh":
        return mesh.plan(places, lanes)
    if strategy == "mesh_rack_blind":
        return _shuffled(places, lanes, rng)
    return strategies.grow(strategy, places)


def _shuffled(places: tuple[Place, ...], lanes: int | None, rng: random.Random) -> Forest:
    """The same mesh by someone who does not know the racks: names dealt out by chance."""
    names = [place.node for place in places]
    rng.shuffle(names)
    dealt = dict(zip((place.node for place in places), names, strict=True)) | {STORE: STORE}
    forest = mesh.plan([Place(place.node) for place in places], lanes)
    seats = tuple(
        type(seat)(dealt[seat.node], seat.rack, tuple(dealt[parent] for parent in seat.parents))
        for seat in forest.seats
    )
    return Forest(forest.lanes, seats)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Parts of the workers, and of the usual rate: `slow` both ways, `weak` only in what they send."""

    fail: float = 0
    slow: float = 0
    slow_rate: float = 0.5
    weak: float = 0
    weak_rate: float = 0.1


def troubles(
    places: tuple[Place, ...], trouble: Trouble, span_ms: int, rng: random.Random
) -> tuple[tuple[Failure, ...], dict[str, int], dict[str, int]]:
    """Failures at random times, every second node back after a minute; slow and weak nodes from the start."""
    names = [place.node for place in places]
    rng.shuffle(names)
    failing = names[: round(trouble.fail * len(names))]
    slowed = names[len(failing) : len(failing) + round(trouble.slow * len(names))]
    weak = names[len(names) - round(trouble.weak * len(names)) :]
    failures = []
    for number, node in enumerate(failing):
        at = rng.randrange(span_ms)
        failures.append(Failure(node, at, at + AWAY_MS if number % 2 else None))
    return (
        tuple(failures),
        dict.fromkeys(slowed, round(trouble.slow_rate * 100)),
        dict.fromkeys(weak, round(trouble.weak_rate * 100)),
    )


def step_for(strategy: str, forest: Forest, pieces: int, workers: int) -> int:
    """As many ticks at once as keep the error of all hops together below a 500th; a chain needs every one."""
    if strategy == "sequential":
        return max(1, pieces * workers // 20_000)
    return max(1, min(forest.lanes, pieces // (500 * max(depths(forest)))))


def line(strategy: str, scenario: Scenario, outcome: Outcome) -> dict[str, object]:
    c = scenario.conditions
    bound = estimate.bound_ms(scenario.places, c)
    failed = {failure.node: failure for failure in scenario.failures}
    floors: dict[str, list[float]] = {"healthy": [], "slow": [], "returned": []}
    for node, at in outcome.finished_ms.items():
        if node in failed:
            if failed[node].back_ms is not None:
                floors["returned"].append(at / (bound + AWAY_MS))
        elif node in scenario.slow:
            floors["slow"].append(
                at / max(bound, c.total_bytes * 100_000 // (c.node_rate * scenario.slow[node]))
            )
        else:
            floors["healthy"].append(at / bound)
    last = max(outcome.finished_ms.values())
    return {
        "strategy": strategy,
        "workers": len(scenario.places),
        "time_s": round(last / 1000, 1),
        "bound_s": round(bound / 1000, 1),
        "ratio": round(last / bound, 4),
        "egress_copies": round(outcome.store_copies, 4),
        "cross_rack_copies": round(outcome.cross_rack_copies, 1),
        **{f"{kind}_ratio": round(max(ratios), 4) if ratios else None for kind, ratios in floors.items()},
        "failed": len(scenario.failures),
        "slow": len(scenario.slow),
        "weak": len(scenario.weak),
        "mended": outcome.mended,
        "decisions": outcome.decisions,
        "steps": outcome.steps,
    }


def simulate(strategy: str, scenario: Scenario, forest: Forest) -> dict[str, object]:
    begun = time.process_time()
    outcome = Fabric(scenario, forest).run()
    return line(strategy, scenario, outcome) | {"cpu_s": round(time.process_time() - begun, 2)}


def runs_of(
    strategies: Iterable[str], places: tuple[Place, ...], conditions: Conditions, lanes: int | None, seed: int,
    trouble: Trouble = Trouble(), notice_ms: int = 1000,
) -> Iterator[dict[str, object]]:  # fmt: skip
    """The same trouble for every strategy."""
    bound = estimate.bound_ms(places, conditions)
    for name in strategies:
        rng = random.Random(seed)
        failures, slow, weak = troubles(places, trouble, bound, rng)
        begun = time.process_time()
        forest = forest_for(name, places, lanes, rng)
        planned = time.process_time() - begun
        step = step_for(name, forest, -(-conditions.total_bytes // conditions.piece_size), len(places))
        scenario = Scenario(
            places, conditions, slow, failures, notice_ms=notice_ms, step_ticks=step, weak=weak
        )
        yield simulate(name, scenario, forest) | {"plan_s": round(planned, 3), "seed": seed}


def original() -> Iterator[dict[str, object]]:
    """Pieces of 1 GB as in the original design, then of 16 MiB; its formulas as it had them."""
    places, total, gigabyte = places_of(100, 4), 500 * 10**9, 10**9
    pieces, hops = total // gigabyte, len(places).bit_length()
    formulas = {
        "sequential": len(places) * pieces,
        "binary_tree": 2 * (pieces + hops),
        "chain": pieces + len(places) - 1,
    }
    for piece in (gigabyte, 16 << 20):
        conditions = Conditions(total, piece, GBPS_10, GBPS_10)
        ours = {each.strategy: each.time_ms for each in estimate.compare(places, conditions)}
        for found in runs_of((*formulas, "mesh"), places, conditions, None, 1):
            name = str(found["strategy"])
            theirs = formulas[name] * gigabyte / GBPS_10 if name in formulas and piece == gigabyte else None
            keys = ("time_s", "bound_s", "ratio", "egress_copies", "cross_rack_copies")
            yield {"strategy": name, "workers": len(places), "piece": piece, "original_s": theirs,
                   "estimate_s": round(ours[name] / 1000, 1), **{key: found[key] for key in keys}}  # fmt: skip


@click.command()
@click.option("--workers", default=1000, show_default=True)
@click.option("--bytes", "total", default=500 * 10**9, show_default=True)
@click.option(
    "--piece", default=16 << 20, show_default=True, help="Bytes that are verified and forwarded together."
)
@click.option("--strategy", type=click.Choice([*STRATEGIES, "all"]), default="mesh", show_default=True)
@click.option("--fail-fraction", default=0.0, help="Of the workers; every second returns after 60 s.")
@click.option("--slow-fraction", default=0.0)
@click.option("--slow-rate", default=0.5, show_default=True, help="Of the usual rate, both ways.")
@click.option("--weak-fraction", default=0.0, help="Of the workers: these only send slowly.")
@click.option("--weak-rate", default=0.1, show_default=True)
@click.option("--racks", default=0, help="0: one for each 25 workers.")
@click.option("--uplink", default=0, help="Bytes per second in and out of a rack; 0: never the limit.")
@click.option(
    "--rate", default=GBPS_10, show_default=True, help="Bytes per second of each node and of the store."
)
@click.option("--lanes", type=int, help="Of the mesh; as many as the planner takes by default.")
@click.option("--notice-ms", default=1000, show_default=True, help="Until neighbours miss a node.")
@click.option("--seed", default=1, show_default=True)
@click.option("--original", "table", is_flag=True, help="The table of the original design, nothing else.")
def main(
    workers: int, total: int, piece: int, strategy: str, fail_fraction: float, slow_fraction: float, slow_rate: float,
    weak_fraction: float, weak_rate: float, racks: int, uplink: int, rate: int, lanes: int | None, notice_ms: int,
    seed: int, table: bool,
) -> None:  # fmt: skip
    """One JSON line for each strategy."""
    places = places_of(workers, racks or max(1, workers // 25))
    conditions = Conditions(total, piece, rate, rate, uplink)
    chosen = STRATEGIES if strategy == "all" else (strategy,)
    trouble = Trouble(fail_fraction, slow_fraction, slow_rate, weak_fraction, weak_rate)
    for found in (
        original() if table else runs_of(chosen, places, conditions, lanes, seed, trouble, notice_ms)
    ):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
