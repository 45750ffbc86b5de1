"""The coordinator of endpoints: any number may run, one leads at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.jobs.states import TERMINAL, WAITING, JobState
from platform_core.serving import spec as specification
from platform_core.serving.autoscaling import scale
from platform_core.serving.canary import Continue, Promote, RollBack, judge
from platform_core.serving.replicas import Action, Drain, Start, Stop, plan, state_of
from platform_core.serving.replicas import Endpoint as EndpointValue
from platform_core.serving.replicas import Replica as ReplicaValue
from platform_core.serving.states import EndpointState, ReplicaState
from platform_core.units import DAY_MS, SECOND_MS
from webapp.base import lease, rounds
from webapp.base.identity import now_ms
from webapp.base.lease import Leadership
from webapp.serving import drift, history, queries, services, watching
from webapp.serving.models import Endpoint, Replica, ShadowSample, TrafficSample
from webapp.sockets import services as sockets

HEALTHY_MS = 6 * SECOND_MS  # an older look at a replica says nothing
KEPT_MS = 8 * DAY_MS  # of traffic: a week, and the time before it that a forecast compares


def coordinate() -> bool:
    """Runs one round. Returns False when another replica is in the middle of one."""
    return rounds.led("serving", _round)


def _round(leadership: Leadership) -> None:
    living = Endpoint.objects.exclude(state=EndpointState.STOPPED)
    ids = list(living.values_list("id", flat=True))
    rounds.each("endpoint", ids, lambda endpoint_id: advance(endpoint_id, leadership))
    drift.look(now_ms(), lambda: lease.fenced(leadership))
    for samples in (TrafficSample, ShadowSample):
        samples.objects.filter(at_ms__lt=now_ms() - KEPT_MS).delete()


def advance(endpoint_id: str, leadership: Leadership | None = None) -> None:
    """Looks at one endpoint and takes the actions that its plan asks for.

    Raises LostLease, with nothing changed, when another coordinator leads by now.
    """
    with transaction.atomic():
        if leadership is not None:
            lease.check(leadership)
        rows = Endpoint.objects.select_for_update(of=("self",)).select_related("user", "stable__model")
        row = rows.get(id=endpoint_id)
        services.follow(row)
        now = now_ms()
        replicas = _observe(row, now)
        _judge(row, replicas, now)
        _scale(row, now)
        value = _value(row)
        seen = [_replica(one) for one in replicas]
        actions = plan(value, seen, now)
        refused = _carry_out(row, actions, replicas, now)
        if refused and not any(isinstance(action, Drain | Stop) for action in actions):
            leaving = plan(replace(value, refused=True), seen, now)
            _carry_out(row, [one for one in leaving if not isinstance(one, Start)], replicas, now)
        row.reason = _failing(replicas) or row.reason
        services.settle(row, state_of(_value(row), seen), now)


def _observe(row: Endpoint, now: int) -> list[Replica]:
    """The replicas that have not ended, each in the state that its job and the routers say."""
    replicas = []
    for replica in queries.replicas(row.id):
        state = _state(replica, now)
        if state != replica.state:
            replica.state, replica.since_ms = state, now
            replica.save(update_fields=["state", "since_ms"])
            sockets.publish(f"endpoint:{row.id}")
            sockets.publish(f"endpoints:{row.team_id}")
        if state is not ReplicaState.ENDED:
            replicas.append(replica)
    return replicas


def _state(replica: Replica, now: int) -> ReplicaState:
    job, state = JobState(replica.job.state), ReplicaState(replica.state)
    if job in TERMINAL:
        return ReplicaState.ENDED
    if state is ReplicaState.DRAINING:
        return state
    if job in WAITING:
        return ReplicaState.WAITING
    if replica.healthy_attempt == replica.job.attempt:
        recent = now - replica.healthy_ms < HEALTHY_MS
        return ReplicaState.READY if recent else ReplicaState.UNHEALTHY
    return ReplicaState.STARTING


def _failing(replicas: Sequence[Replica]) -> str:
    """Why a replica does not come up, where its job has failed before; else ''."""
    rising = (ReplicaState.WAITING, ReplicaState.STARTING)
    failed = (one.job for one in replicas if one.state in rising and one.job.attempt > 1 and one.job.reason)
    return next((f"{job.name} failed: {job.reason}" for job in failed), "")


def _judge(row: Endpoint, replicas: list[Replica], now: int) -> None:
    if row.canary_id is None or row.stopped:
        return
    ready = any(one.model_version_id == row.canary_id and one.state == ReplicaState.READY for one in replicas)
    if ready and row.canary_ready_ms is None:
        row.canary_ready_ms = now
        row.save(update_fields=["canary_ready_ms"])
    policy = queries.canary_policy(row)
    match judge(policy, watching.watch(row, policy, now, outputs=policy.same_outputs), now):
        case Continue(reason):
            Endpoint.objects.filter(id=row.id).update(verdict=reason)
            row.verdict = reason
        case Promote(reason):
            services.end_canary(row, promoted=True, actor="system", reason=reason)
        case RollBack(reason):
            services.end_canary(row, promoted=False, actor="system", reason=reason)
            for one in replicas:
                one.refresh_from_db(fields=["state", "since_ms"])


def _scale(row: Endpoint, now: int) -> None:
    policy = specification.load(row.spec).scaling
    since = now - max(policy.down_after_ms, policy.idle_ms)
    readings = queries.readings(row.id, since)
    if policy.minimum == 0 and row.created_ms > since and not readings:
        return  # it has not been up for long enough to call it idle
    scaled = scale(policy, readings, row.wanted, now, history.expected_demand(row.id, now))
    if (scaled.replicas, scaled.reason) != (row.wanted, row.scaling_reason):
        row.wanted, row.scaling_reason = scaled.replicas, scaled.reason
        row.save(update_fields=["wanted", "scaling_reason"])


def _value(row: Endpoint) -> EndpointValue:
    share = queries.canary_policy(row).share if row.canary_id else 0
    return EndpointValue(
        row.stable_id, row.wanted, row.canary_id or "", share, row.stopped, row.was_ready,
        freeing=queries.is_freeing(row.id),
    )  # fmt: skip


def _replica(row: Replica) -> ReplicaValue:
    return ReplicaValue(row.id, row.model_version_id, ReplicaState(row.state), row.since_ms)


def _carry_out(row: Endpoint, actions: Sequence[Action], replicas: Sequence[Replica], now: int) -> bool:
    """Returns whether the quota refused a replica; the endpoint then goes on as it is."""
    by_id, refused = {one.id: one for one in replicas}, False
    for action in actions:
        match action:
            case Start(version):
                refused = refused or not _start(row, version)
            case Drain(key):
                services.drain_replicas([key], now)
            case Stop(key):
                services.stop_replica(row, by_id[key], now)
    return refused


def _start(row: Endpoint, version: str) -> bool:
    """Returns False where the quota of the team does not allow it."""
    try:
        services.start_replica(row, version)
    except TrainmasterError as error:  # the quota, a deleted model
        Endpoint.objects.filter(id=row.id).update(reason=error.sentence)
        row.reason = error.sentence
        return error.code != "quota_exceeded"
    return True
