"""What is measured is what runs: the settings start with the policy that the benchmarks replay as `production`."""

import os
import subprocess
import sys
from dataclasses import asdict

from benchmarks import scheduler, scheduler_round
from platform_core.scheduling.policy import PRODUCTION

_DEFAULTS = (
    "import django; django.setup(); from webapp.scheduling import situation; print(repr(situation.policy()))"
)


def test_an_installation_without_any_setting_runs_the_policy_that_is_replayed() -> None:
    bare = {
        name: text for name, text in os.environ.items() if "_SCHEDULING_" not in name and "GRACE" not in name
    }
    bare["DJANGO_SETTINGS_MODULE"] = "webapp.config.settings"
    made = subprocess.run(
        [sys.executable, "-c", _DEFAULTS], env=bare, capture_output=True, text=True, check=True
    )
    assert made.stdout.strip() == repr(PRODUCTION)
    assert scheduler.CONTESTANTS["production"].policy == PRODUCTION
    assert scheduler_round.POLICIES["production"] == PRODUCTION


def test_it_stops_and_moves_preemptible_jobs_with_its_safeguards_on() -> None:
    policy = asdict(PRODUCTION)
    assert policy["evicts"] is policy["migrates"] is True
    assert policy["reservations"] >= 1
    assert policy["least_run_ms"] > 0
    assert 0 < policy["most_preemptions"] < 1_000
