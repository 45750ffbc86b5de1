"""The simulation of the autoscaler: it counts right, and the forecast helps where a day is like the last one."""

from __future__ import annotations

from benchmarks.rig import autoscaling
from benchmarks.rig.autoscaling import WEEK_STEPS, fixed, simulate


def test_enough_replicas_violate_nothing_and_cost_what_they_are() -> None:
    arrivals = [100.0] * (2 * WEEK_STEPS)  # ten a second: two at once
    assert simulate(arrivals, fixed(10.0)) == {"slo_violations_percent": 0.0, "replica_hours": 168.0}


def test_a_load_above_the_replicas_violates_the_objective() -> None:
    arrivals = [500.0] * (2 * WEEK_STEPS)  # one replica answers 400 in a step
    assert simulate(arrivals, lambda step, service: 1)["slo_violations_percent"] == 100.0


def test_the_plan_of_production_is_simulated() -> None:
    service = autoscaling.Service(ready=1)
    autoscaling._serve(service, 0, 800.0)
    assert service.queue == 400.0
    assert autoscaling.without_forecast(1, service) > 1
    assert autoscaling.ours(1, service) == autoscaling.without_forecast(1, service), "without a past"
    autoscaling._resize(service, 0, 3)
    assert (service.ready, service.replicas) == (1, 3)
    autoscaling._resize(service, 0, 1)
    assert (service.ready, service.replicas) == (1, 1)
