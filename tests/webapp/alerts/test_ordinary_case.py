"""Each built-in rule stays silent in its ordinary case, in which its measure does have a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache

from platform_core.alerting.builtin import RULES
from platform_core.alerting.rules import Rule
from platform_core.jobs.job import MemberPhase
from platform_core.node.description import SlotTelemetry, Telemetry
from platform_core.serving.latency import BUCKETS, bucket_of
from platform_core.units import DAY_MS, HOUR_MS, MICRO_DOLLARS, MINUTE_MS
from tests.webapp.alerts.certificates import certificate
from tests.webapp.alerts.proving import Clock
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.alerts import readings
from webapp.alerts.models import Alert
from webapp.artifacts.models import Manifest, Upload
from webapp.base import pulse
from webapp.checkpoints.models import Checkpoint
from webapp.datasets.models import Dataset, DatasetSnapshot
from webapp.events import services as events
from webapp.experiments import services as experiments
from webapp.experiments.services import Point
from webapp.jobs.models import Job, UtilisationSample
from webapp.nodes import liveness
from webapp.nodes.models import Node
from webapp.registry import services as registry
from webapp.scheduling import measures as scheduling
from webapp.service_levels.models import Measurement
from webapp.serving import services as serving
from webapp.serving.models import Endpoint, Replica, TrafficSample
from webapp.storage.models import StorageBudget, StoredDay


def stored(team: Team) -> Manifest:
    manifest = Manifest.objects.create(
        id="man-1", kind="model", source_url="", total_bytes=1, files=1, document={}, created_ms=1
    )
    manifest.teams.add(team)
    return manifest


def registered(team: Team, owner: User) -> None:
    registry.register(actor_of(owner), team.slug, "ages", manifest=stored(team).id)


@dataclass(frozen=True, slots=True)
class World:
    """A cluster of four nodes with nothing on it yet; `now` is when the test begins."""

    nodes: list[Node]
    team: Team
    owner: User
    submit: Callable[..., Job]
    settings: Any
    folder: Path
    now: int

    def running(self) -> Job:
        job = self.submit()
        tick()
        say(job, MemberPhase.RUNNING)
        return Job.objects.get(id=job.id)

    def endpoint(self) -> Endpoint:
        """Of one replica that is ready, with a target for its latency."""
        registered(self.team, self.owner)
        fields = {
            "name": "ages",
            "team": "vision",
            "model": "ages",
            "gpu_type": "cpu",
            "target_latency_ms": 100,
        }
        row = serving.create(actor_of(self.owner), fields)
        Endpoint.objects.filter(id=row.id).update(
            was_ready=True, drift={"findings": [{"feature": "age", "moved": False}]}
        )
        job = self.submit(kind="service", strategy="custom", num_gpus=1, model="ages:1", max_restarts=0)
        Replica.objects.create(
            id="rep-1", endpoint=row, job=job, model_version_id=row.stable_id, state="ready", since_ms=1
        )
        return row


Prepare = Callable[[int], object]
ORDINARY: dict[str, Callable[[World], Prepare]] = {}


def ordinary(*codes: str) -> Callable[[Callable[[World], Prepare]], Callable[[World], Prepare]]:
    """Says what is ordinary for these rules: a function that makes it so at each moment of the test."""

    def keep(case: Callable[[World], Prepare]) -> Callable[[World], Prepare]:
        ORDINARY.update(dict.fromkeys(codes, case))
        return case

    return keep


@ordinary("job_underused", "job_mostly_idle", "job_slowed_down", "job_low_mfu", "job_data_starved")
def a_job_that_trains_well(world: World) -> Prepare:
    job, begun = world.running(), world.now - HOUR_MS

    def train(at: int) -> None:
        rows = Job.objects.filter(id=job.id)
        rows.update(
            utilisation=0.92, step=(at - begun) // 100, progress_ms=at, first_step=0, first_step_ms=begun
        )
        points = {"mfu": 0.45, "data_share": 0.04}
        experiments.ingest(
            job.id,
            1,
            [
                Point(f"ranks/{rank}/{name}", at // 1000, value, at)
                for rank in range(4)
                for name, value in points.items()
            ],
        )

    return train


@ordinary("checkpoint_slow", "checkpoint_failures")
def a_job_that_saves_as_usual(world: World) -> Prepare:
    job, manifest = world.running(), stored(world.team)
    for number in range(20):
        Checkpoint.objects.create(
            id=f"ckpt-{number}", job=job, attempt=1, step=number, manifest=manifest, upload_ms=1000,
            saved_ms=world.now - HOUR_MS + number, write_ms=1000 + 20 * number,
        )  # fmt: skip
    return lambda at: None


@ordinary("endpoint_drift", "endpoint_down", "endpoint_short", "router_down")
def an_endpoint_that_nobody_asks(world: World) -> Prepare:
    world.endpoint()
    return lambda at: cache.set("pulse:router", at, None)


@ordinary("endpoint_errors", "endpoint_slow")
def an_endpoint_that_answers(world: World) -> Prepare:
    row = world.endpoint()
    latencies = [0] * BUCKETS
    latencies[bucket_of(40)] = 1000

    def answers(at: int) -> None:
        cache.set("pulse:router", at, None)
        TrafficSample.objects.create(
            endpoint=row, model_version_id=row.stable_id, router="r", at_ms=at - 1, requests=1000, errors=3,
            in_flight_ms=1, latencies=latencies,
        )  # fmt: skip

    return answers


@ordinary("queue_wait", "queue_wait_normal", "queue_wait_low")
def jobs_that_wait_for_a_while(world: World) -> Prepare:
    waits = {20: 30 * MINUTE_MS, 50: 5 * HOUR_MS, 80: 20 * HOUR_MS}
    jobs = {world.submit(priority=50).id: priority for priority in waits}

    def wait(at: int) -> None:
        for job_id, priority in jobs.items():
            Job.objects.filter(id=job_id).update(priority=priority, waiting_since_ms=at - waits[priority])

    return wait


@ordinary("storage_nearly_full", "storage_over_budget", "store_damaged")
def a_team_that_keeps_little(world: World) -> Prepare:
    Upload.objects.create(
        id="up-1", team=world.team, user=world.owner, kind="code", name="x", bytes=950, created_ms=1
    )
    StoredDay.objects.create(
        team=world.team, kind="model", day=world.now // DAY_MS, bytes=2**30, items=1, cold_bytes=0
    )
    StorageBudget.objects.create(team=world.team, month_micro_dollars=1000 * MICRO_DOLLARS)
    world.settings.STORAGE_PRICE = 10
    return lambda at: None


@ordinary("dataset_stale", "dataset_late")
def a_dataset_that_comes_daily(world: World) -> Prepare:
    Dataset.objects.create(team=world.team, name="clicks", fresh_minutes=2 * 24 * 60)
    for number, days in enumerate((3, 2, 1), start=1):
        DatasetSnapshot.objects.create(
            id=f"ds-{number}", team=world.team, name="clicks", version=number, created_ms=world.now - days * DAY_MS,
            created_by=world.owner,
        )  # fmt: skip
    return lambda at: None


@ordinary("cluster_underused", "job_failures")
def a_busy_cluster(world: World) -> Prepare:
    for number in range(40):
        state = "failed" if number == 0 else "succeeded"
        Job.objects.create(
            id=f"job-{number}", team=world.team, user=world.owner, name="x", spec={}, state=state,
            end="script_error" if state == "failed" else "", submitted_ms=1, waiting_since_ms=1,
            finished_ms=world.now - HOUR_MS, gpu_type="cpu", num_gpus=1, priority=50,
        )  # fmt: skip
    return lambda at: UtilisationSample.objects.create(
        at_ms=at, gpu_type="cpu", slots=8, held=7, utilisation=0.9, queued_jobs=2
    )


@ordinary("node_failures")
def a_node_that_was_lost(world: World) -> Prepare:
    node = world.nodes[0]
    events.record(
        "NodeLost", f"node:{node.id}", actor="system", at_ms=world.now, data={"name": node.hostname}
    )
    return lambda at: None


@ordinary("gpu_ecc_corrected", "gpu_ecc_uncorrected", "clock_skew", "store_not_taking", "uplink_lags")
def nodes_in_health(world: World) -> Prepare:
    slot = SlotTelemetry(0, readings={"ecc_corrected_hour": 3.0})
    telemetry = Telemetry(10**9, 10**9, (slot,), {"clock_offset_ms": 12.0, "uploads_waiting_ms": 2_000.0})

    def beat(at: int) -> None:
        for node in world.nodes:
            liveness.heard(node.id, telemetry, at)
            liveness.sent(node.id, at - 900, at)

    return beat


@ordinary(
    "scheduler_stalled",
    "scheduler_leaderless",
    "gateway_down",
    "worker_down",
    "tasks_late",
    "rounds_fail",
    "database_connections",
)
def a_platform_that_runs(world: World) -> Prepare:
    def run(at: int) -> None:
        scheduling.finished(at - 2_000, 5)
        liveness.listening(at - 3_000)
        pulse.keep("worker", pulse.Pulse(at - 1_000, 40))

    return run


@ordinary("service_level_burns_fast", "service_level_burns")
def a_lost_minute_in_a_month(world: World) -> Prepare:
    def probe(at: int) -> None:
        Measurement.objects.all().delete()
        minute = at - at % MINUTE_MS
        Measurement.objects.bulk_create(
            Measurement(code="availability", at_ms=minute - ago * MINUTE_MS, good=ago != 2, total=1)
            for ago in range(1, 6 * 60 + 2)
        )

    return probe


@ordinary("certificate_expires")
def a_certificate_of_a_year(world: World) -> Prepare:
    path = world.folder / "gateway.pem"
    world.settings.GATEWAY_TLS, world.settings.GATEWAY_CERTIFICATE = True, str(path)
    path.write_bytes(certificate(world.now, 365))
    return lambda at: None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_is_silent_in_the_ordinary_case(
    rule: Rule, cluster: list[Node], vision: Team, owner: User, submit: Callable[..., Job], clock: Clock,
    settings: Any, tmp_path: Path,
) -> None:  # fmt: skip
    assert rule.code in ORDINARY, "say above in which ordinary case the new rule stays silent"
    prepare = ORDINARY[rule.code](World(cluster, vision, owner, submit, settings, tmp_path, clock.now))
    clock.passes(2 * rule.condition.for_ms + 4 * MINUTE_MS, prepare, times=4)
    name = rule.condition.measure
    taken = readings.take(clock.now, [name])[name]
    assert taken, f"{name} has no reading"
    assert any(reading.value is not None for reading in taken), f"{name} has no value, so nothing is proven"
    assert not Alert.objects.filter(rule=rule.code).exists()


WHAT_TRAINS_NOT = [
    {"kind": "service", "strategy": "custom", "model": "ages:1", "max_restarts": 0},
    {"kind": "batch"},
]


@pytest.mark.parametrize("spec", WHAT_TRAINS_NOT, ids=lambda spec: spec["kind"])
def test_what_does_not_train_raises_no_alert_of_training(
    cluster: list[Node], vision: Team, owner: User, submit: Callable[..., Job], clock: Clock, spec: dict[str, Any]
) -> None:  # fmt: skip
    registered(vision, owner)
    job = submit(num_gpus=1, **spec)
    tick()
    say(job, MemberPhase.RUNNING)

    def idles(at: int) -> None:
        Job.objects.filter(id=job.id).update(
            utilisation=0.01, step=5, progress_ms=at, first_step=0, first_step_ms=1
        )
        shares = {"mfu": 0.01, "data_share": 0.9}
        experiments.ingest(
            job.id, 1, [Point(f"ranks/0/{name}", at // 1000, value, at) for name, value in shares.items()]
        )

    clock.passes(2 * HOUR_MS, idles, times=10)
    assert not Alert.objects.exclude(rule__startswith="scheduler_").exists()


def test_an_idle_endpoint_alone_does_not_make_the_cluster_underused(
    cluster: list[Node], vision: Team, owner: User, submit: Callable[..., Job], clock: Clock
) -> None:
    registered(vision, owner)
    job = submit(num_gpus=1, **WHAT_TRAINS_NOT[0])
    tick()
    say(job, MemberPhase.RUNNING)
    Job.objects.filter(id=job.id).update(utilisation=0.01)

    def idles(at: int) -> None:
        UtilisationSample.objects.create(
            at_ms=at, gpu_type="cpu", slots=8, held=1, utilisation=0.01, queued_jobs=0
        )

    clock.passes(3 * HOUR_MS, idles, times=10)
    assert not Alert.objects.exclude(rule__startswith="scheduler_").exists()
