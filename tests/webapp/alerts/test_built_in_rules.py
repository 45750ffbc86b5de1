"""Every built-in rule fires and resolves over what the platform really measures: rows, telemetry, files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from platform_core.alerting.builtin import RULES
from platform_core.alerting.measures import WaitClass
from platform_core.jobs.definition import LEAST_URGENT, MOST_URGENT
from platform_core.jobs.job import MemberPhase
from platform_core.node.description import SlotTelemetry, Telemetry
from platform_core.units import DAY_MS, HOUR_MS, MICRO_DOLLARS, MINUTE_MS
from tests.webapp.alerts.certificates import certificate
from tests.webapp.alerts.proving import Clock, look_after, proves, state
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import Team, User
from webapp.alerts import readings
from webapp.alerts.models import Alert
from webapp.artifacts.models import Manifest, Upload
from webapp.base import pulse
from webapp.base.models import Lease
from webapp.checkpoints.models import Checkpoint
from webapp.events import services as events
from webapp.experiments import services as experiments
from webapp.experiments.services import Point
from webapp.jobs.models import Job, UtilisationSample
from webapp.nodes import liveness
from webapp.nodes.models import Node
from webapp.scheduling import measures as scheduling
from webapp.service_levels.models import Measurement
from webapp.storage.models import Damage, StorageBudget, StoredDay


def uses(job: Job, utilisation: float) -> Callable[[int], object]:
    return lambda at: Job.objects.filter(id=job.id).update(utilisation=utilisation)


def test_utilisation_of_a_job(running: Job, clock: Clock) -> None:
    proves("job_underused", clock, uses(running, 0.7), uses(running, 0.9))
    assert state("job_mostly_idle") == ""


def test_a_job_that_hardly_uses_its_slots(running: Job, clock: Clock) -> None:
    proves("job_mostly_idle", clock, uses(running, 0.2), uses(running, 0.9))


def test_an_alert_of_a_job_that_ends_is_over(running: Job, clock: Clock) -> None:
    clock.passes(14 * MINUTE_MS, uses(running, 0.1), times=2)
    assert state("job_underused") == "firing"
    say(running, MemberPhase.EXITED, 0)
    clock.passes(MINUTE_MS)
    assert state("job_underused") == "resolved"


def test_without_telemetry_nobody_knows(running: Job, clock: Clock) -> None:
    clock.passes(14 * MINUTE_MS, uses(running, 0.1), times=2)
    clock.passes(6 * MINUTE_MS, lambda at: Job.objects.filter(id=running.id).update(utilisation=None))
    assert state("job_underused") == "no_data"


def test_a_job_whose_throughput_collapses(running: Job, clock: Clock) -> None:
    begun = clock.now - HOUR_MS

    def at_pace(steps_a_minute: int) -> Callable[[int], object]:
        def move(at: int) -> None:
            row = Job.objects.get(id=running.id)
            rows = Job.objects.filter(id=running.id)
            rows.update(
                step=(row.step or 0) + steps_a_minute, progress_ms=at, first_step=0, first_step_ms=begun
            )

        return move

    Job.objects.filter(id=running.id).update(step=6000)
    clock.passes(4 * MINUTE_MS, at_pace(0), times=2)
    clock.passes(10 * MINUTE_MS, at_pace(0), times=4)
    assert state("job_slowed_down") == "firing"
    clock.passes(9 * MINUTE_MS, at_pace(1000), times=4)
    assert state("job_slowed_down") == "resolved"


def test_mfu_of_a_job(running: Job, clock: Clock) -> None:
    def reports(value: float) -> Callable[[int], object]:
        return lambda at: experiments.ingest(running.id, 1, [Point("ranks/0/mfu", at // 1000, value, at)])

    proves("job_low_mfu", clock, reports(0.2), reports(0.5))


def test_data_that_comes_slower_than_the_job_computes(running: Job, clock: Clock) -> None:
    def waits(share: float) -> Callable[[int], object]:
        point = "ranks/0/data_share"
        return lambda at: experiments.ingest(running.id, 1, [Point(point, at // 1000, share, at)])

    proves("job_data_starved", clock, waits(0.3), waits(0.05))


@pytest.fixture
def saved(running: Job) -> Callable[..., Checkpoint]:
    manifest = Manifest.objects.create(
        id="man-1", kind="checkpoint", source_url="", total_bytes=1, files=1, document={}, created_ms=1
    )

    def save(number: int, at_ms: int, **columns: Any) -> Checkpoint:
        values = {"write_ms": 1000, "upload_ms": 1000, **columns}
        return Checkpoint.objects.create(
            id=f"ckpt-{number}",
            job=running,
            attempt=1,
            step=number,
            manifest=manifest,
            saved_ms=at_ms,
            **values,
        )

    return save


def test_checkpoints_that_take_longer(saved: Callable[..., Checkpoint], clock: Clock) -> None:
    for number in range(5):
        saved(number, clock.now - HOUR_MS + number)
    slow = saved(6, clock.now, write_ms=9000)
    mended = Checkpoint.objects.filter(id=slow.id)
    proves("checkpoint_slow", clock, lambda at: None, lambda at: mended.update(write_ms=1000))


def test_checkpoints_that_fail(saved: Callable[..., Checkpoint], clock: Clock) -> None:
    for number in range(20):
        saved(number, clock.now - HOUR_MS, damaged="a bit flipped" if number == 0 else "")
    proves("checkpoint_failures", clock, lambda at: None, lambda at: Checkpoint.objects.update(damaged=""))


def test_jobs_that_fail(running: Job, clock: Clock) -> None:
    def ended(failed: int) -> Callable[[int], object]:
        def write(at: int) -> None:
            Job.objects.exclude(id=running.id).delete()
            for number in range(20):
                state = "failed" if number < failed else "succeeded"
                Job.objects.create(
                    id=f"job-{number}", team_id="vision", user_id=running.user_id, name="x", spec={}, state=state,
                    end="script_error" if state == "failed" else "", submitted_ms=1, waiting_since_ms=1,
                    finished_ms=at - 1, gpu_type="cpu", num_gpus=1, priority=50,
                )  # fmt: skip

        return write

    proves("job_failures", clock, ended(2), ended(0))


def test_jobs_that_wait(cluster: list[Node], submit: Callable[..., Job], clock: Clock) -> None:
    job = submit()

    def waits(ms: int) -> Callable[[int], object]:
        return lambda at: Job.objects.filter(id=job.id).update(waiting_since_ms=at - ms, priority=40)

    proves("queue_wait", clock, waits(3 * HOUR_MS), waits(MINUTE_MS))
    assert "1 job waits of vision for more than 2 h; the longest for 3 h" in queue_sentence(job, clock)


def queue_sentence(job: Job, clock: Clock) -> str:
    Job.objects.filter(id=job.id).update(waiting_since_ms=clock.now - 3 * HOUR_MS)
    clock.passes(1)
    return str(Alert.objects.get(rule="queue_wait", state="firing").sentence)


@pytest.mark.parametrize(
    ("code", "priority", "too_long_ms"),
    [("queue_wait_normal", 50, 13 * HOUR_MS), ("queue_wait_low", 80, 4 * DAY_MS)],
)
def test_jobs_that_wait_at_the_priorities_of_members(
    cluster: list[Node], submit: Callable[..., Job], clock: Clock, code: str, priority: int, too_long_ms: int
) -> None:
    job = submit(priority=priority)

    def waits(ms: int) -> Callable[[int], object]:
        return lambda at: Job.objects.filter(id=job.id).update(waiting_since_ms=at - ms)

    proves(code, clock, waits(too_long_ms), waits(MINUTE_MS))
    assert {alert.rule for alert in Alert.objects.all()} == {code}


def test_each_priority_is_judged_by_one_rule() -> None:
    judged = [priority for waits in WaitClass for priority in waits.priorities]
    assert sorted(judged) == list(range(MOST_URGENT, LEAST_URGENT + 1))


def test_the_rank_that_does_worst_is_the_one_that_counts(running: Job, clock: Clock) -> None:
    def reports(at: int) -> None:
        points = [Point(f"ranks/{rank}/mfu", at // 1000, 0.5, at) for rank in range(7)]
        experiments.ingest(running.id, 1, [*points, Point("ranks/7/mfu", at // 1000, 0.1, at)])
        shares = [Point(f"ranks/{rank}/data_share", at // 1000, 0.01, at) for rank in range(7)]
        experiments.ingest(running.id, 1, [*shares, Point("ranks/7/data_share", at // 1000, 0.6, at)])

    clock.passes(20 * MINUTE_MS, reports, times=8)
    said = {alert.rule: alert.sentence for alert in Alert.objects.filter(state="firing")}
    assert "reaches 10 % of the FLOP/s of its GPUs at rank 7, the worst of 8" in said["job_low_mfu"]
    assert (
        "gets 40 % of the data that its GPUs could take at rank 7, the worst of 8" in said["job_data_starved"]
    )


def test_a_rank_of_an_earlier_attempt_counts_no_more(running: Job, clock: Clock) -> None:
    old = clock.now - HOUR_MS
    experiments.ingest(running.id, 1, [Point("ranks/7/mfu", old // 1000, 0.1, old)])
    clock.passes(
        20 * MINUTE_MS,
        lambda at: experiments.ingest(running.id, 1, [Point("ranks/0/mfu", at // 1000, 0.5, at)]),
        times=8,
    )
    assert state("job_low_mfu") == ""


def test_storage_that_is_nearly_full(vision: Team, owner: User, clock: Clock, settings: Any) -> None:
    settings.TEAM_UPLOAD_LIMIT_BYTES = 1000
    row = Upload.objects.create(
        id="up-1", team=vision, user=owner, kind="code", name="x", bytes=950, created_ms=1
    )
    rows = Upload.objects.filter(id=row.id)
    proves("storage_nearly_full", clock, lambda at: None, lambda at: rows.update(bytes=100))


def test_storage_that_costs_more_than_its_budget(vision: Team, clock: Clock, settings: Any) -> None:
    settings.STORAGE_PRICE = 10
    StoredDay.objects.create(
        team=vision, kind="model", day=clock.now // DAY_MS, bytes=2**40, items=1, cold_bytes=0
    )

    def may_spend(dollars: int) -> Callable[[int], object]:
        budget = {"month_micro_dollars": dollars * MICRO_DOLLARS}
        return lambda at: StorageBudget.objects.update_or_create(team=vision, defaults=budget)

    proves("storage_over_budget", clock, may_spend(5), may_spend(20))


def test_files_that_the_store_has_lost(vision: Team, clock: Clock) -> None:
    manifest = Manifest.objects.create(
        id="man-1", kind="model", source_url="", total_bytes=1, files=1, document={}, created_ms=1
    )
    manifest.teams.add(vision)

    def lost(at: int) -> object:
        told = {"kind": "model", "name": "bytelm", "why": "it is gone", "bytes": 5, "found_ms": at}
        return Damage.objects.get_or_create(manifest=manifest.id, path="a.bin", defaults=told)

    proves("store_damaged", clock, lost, lambda at: Damage.objects.update(mended_ms=at))


def test_utilisation_of_the_cluster(cluster: list[Node], clock: Clock) -> None:
    def sampled(utilisation: float) -> Callable[[int], object]:
        return lambda at: UtilisationSample.objects.create(
            at_ms=at, gpu_type="cpu", slots=8, held=8, utilisation=utilisation, queued_jobs=0
        )

    proves("cluster_underused", clock, sampled(0.4), sampled(0.8))


def test_nodes_that_are_lost(cluster: list[Node], clock: Clock) -> None:
    for node in cluster[:3]:
        events.record(
            "NodeLost", f"node:{node.id}", actor="system", at_ms=clock.now, data={"name": node.hostname}
        )
    clock.passes(MINUTE_MS)
    alert = Alert.objects.get(rule="node_failures")
    assert alert.sentence == "3 nodes were lost within a day: node-0, node-1, node-2."
    clock.now += DAY_MS
    clock.passes(4 * MINUTE_MS, times=2)
    assert state("node_failures") == "resolved"


@pytest.mark.parametrize(
    ("code", "of_slot", "of_node"),
    [
        ("gpu_ecc_corrected", {"ecc_corrected_hour": 400.0}, {}),
        ("gpu_ecc_uncorrected", {"ecc_uncorrected_hour": 2.0}, {}),
        ("clock_skew", {}, {"clock_offset_ms": 1500.0}),
        ("store_not_taking", {}, {"uploads_waiting_ms": 400_000.0}),
    ],
)
def test_what_nodes_measure(cluster: list[Node], clock: Clock, code: str, of_slot: Any, of_node: Any) -> None:
    def heard(slot: Any, node: Any) -> Callable[[int], object]:
        telemetry = Telemetry(10**9, 10**9, (SlotTelemetry(0, readings=slot),), node)
        return lambda at: liveness.heard(cluster[0].id, telemetry, at)

    proves(code, clock, heard(of_slot, of_node), heard({}, {}))
    assert Alert.objects.get(rule=code).name == "node-0"


def test_an_uplink_that_lags(cluster: list[Node], clock: Clock) -> None:
    def late(ms: int) -> Callable[[int], object]:
        return lambda at: liveness.sent(cluster[0].id, at - ms, at)

    proves("uplink_lags", clock, late(5 * MINUTE_MS), late(0))


def test_a_scheduler_that_finishes_no_round(cluster: list[Node], clock: Clock) -> None:
    tick()
    begun = clock.now

    def stuck(at: int) -> None:
        held = {"holder": "x", "expires_ms": at + DAY_MS}
        Lease.objects.update_or_create(name="scheduler", defaults=held)
        scheduling.finished(begun - HOUR_MS, 5)

    proves("scheduler_stalled", clock, stuck, lambda at: scheduling.finished(at, 5))


def test_a_scheduler_that_nobody_leads(cluster: list[Node], clock: Clock) -> None:
    tick()
    begun = clock.now
    proves(
        "scheduler_leaderless", clock, lambda at: scheduling.finished(begun - HOUR_MS, 5),
        lambda at: scheduling.finished(at, 5),
    )  # fmt: skip


def test_a_gateway_that_is_down(db: None, clock: Clock) -> None:
    begun = clock.now
    proves("gateway_down", clock, lambda at: liveness.listening(begun - HOUR_MS), liveness.listening)


def worked(at: int, lag_ms: int = 0) -> None:
    pulse.keep("scheduler", pulse.Pulse(at, lag_ms))


def test_workers_that_are_down(db: None, clock: Clock) -> None:
    begun = clock.now
    proves("worker_down", clock, lambda at: worked(begun - HOUR_MS), worked)


def test_tasks_that_wait(db: None, clock: Clock) -> None:
    proves("tasks_late", clock, lambda at: worked(at, 2 * MINUTE_MS), worked)


def test_a_subject_that_fails_in_each_round(db: None, clock: Clock) -> None:
    proves("rounds_fail", clock, lambda at: look_after(0), lambda at: look_after(1))


@pytest.mark.parametrize("code", ["service_level_burns_fast", "service_level_burns"])
def test_an_error_budget_that_burns(db: None, clock: Clock, code: str) -> None:
    def probed(good: int, minutes: int) -> Callable[[int], object]:
        def write(at: int) -> None:
            Measurement.objects.all().delete()
            minute = at - at % MINUTE_MS
            Measurement.objects.bulk_create(
                Measurement(
                    code="availability", at_ms=minute - ago * MINUTE_MS, good=ago > minutes or good, total=1
                )
                for ago in range(1, 6 * 60 + 2)
            )

        return write

    # Of a budget of 0.1 %, 10 lost minutes of an hour are 167 times too fast, and of six hours 28 times.
    proves(code, clock, probed(0, 10), probed(1, 10))
    alert = Alert.objects.get(rule=code)
    assert alert.subject == "availability"
    assert "Control plane availability: its error budget of 28 days burns" in alert.sentence


def test_a_database_near_its_limit(db: None, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    used, most = readings.connections()
    assert 1 <= used <= most
    found = {"used": 95}
    monkeypatch.setattr(readings, "connections", lambda: (found["used"], 100))
    proves("database_connections", clock, lambda at: None, lambda at: found.update(used=10))


def test_a_certificate_near_its_end(db: None, clock: Clock, settings: Any, tmp_path: Path) -> None:
    settings.GATEWAY_TLS, settings.GATEWAY_CERTIFICATE = True, str(tmp_path / "gateway.pem")

    def issue(days: int) -> Callable[[int], object]:
        return lambda at: (tmp_path / "gateway.pem").write_bytes(certificate(at, days))

    proves("certificate_expires", clock, issue(5), issue(365))


def test_every_built_in_rule_is_proven_here() -> None:
    told = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*_rules.py"))
    assert [rule.code for rule in RULES if f'"{rule.code}"' not in told] == []
