"""A plain loop on your machine: the platform chooses the settings and says which trials to give up.

The sweep has no `job`. TRAINMASTER_URL=… TRAINMASTER_TOKEN=… python plain_loop.py SWEEP [TRIALS]
"""

import math
import sys

from trainmaster.client import Client
from trainmaster.environment import client_environment
from trainmaster.sweeps import Sweeps, Trial

STEPS = 27


def loss_at(lr: float, step: int) -> float:
    """Stands for a step of training: the best rate is 0.01."""
    return abs(math.log10(lr) + 2) + 1 / step


def search(sweeps: Sweeps, sweep_id: str, trials: int) -> list[Trial]:
    return [evaluate(sweeps, sweep_id, sweeps.ask(sweep_id)) for _ in range(trials)]


def evaluate(sweeps: Sweeps, sweep_id: str, trial: Trial) -> Trial:
    loss = math.inf
    for step in range(1, STEPS + 1):
        loss = loss_at(trial.parameters["lr"], step)
        told = sweeps.tell(sweep_id, trial.number, points=[(step, loss)])
        if told.is_ended:  # pruned
            return told
    return sweeps.tell(sweep_id, trial.number, value=loss)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    environment = client_environment()
    with Client(environment.url, environment.token) as client:
        for ended in search(Sweeps(client), sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10):
            print(f"trial {ended.number}: {ended.state} {ended.value} {dict(ended.parameters)}")
