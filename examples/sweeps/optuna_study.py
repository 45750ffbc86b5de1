"""An Optuna study of your own that runs its trials as jobs of a sweep with `method: external`.

TRAINMASTER_URL=… TRAINMASTER_TOKEN=… python optuna_study.py SWEEP [TRIALS]
"""

import sys

import optuna

from trainmaster.client import Client
from trainmaster.environment import client_environment
from trainmaster.sweeps import Sweeps


def search(sweeps: Sweeps, sweep_id: str, trials: int, every: float = 2.0) -> optuna.Study:
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=1))
    for _ in range(trials):
        asked = study.ask()
        parameters = {"lr": asked.suggest_float("lr", 1e-4, 1e-1, log=True)}
        trial = sweeps.ask(sweep_id, parameters)
        ended = sweeps.wait(sweep_id, trial.number, every=every)
        if ended.state == "succeeded":
            study.tell(asked, ended.value)
        else:
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
        print(f"trial {ended.number}: {ended.state} {ended.value} {parameters}")
    return study


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    environment = client_environment()
    with Client(environment.url, environment.token) as client:
        count = int(sys.argv[2]) if len(sys.argv) > 2 else 10
        print(f"best: {search(Sweeps(client), sys.argv[1], count).best_params}")
