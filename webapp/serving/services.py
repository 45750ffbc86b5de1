"""The verbs of an endpoint: create, scale, change its version, judge by hand, stop, and take what routers see."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict

from django.db import IntegrityError, transaction

from platform_core.errors import IllegalTransition, TrainmasterError
from platform_core.jobs import spec as jobs_specification
from platform_core.jobs.cut_off import WhenCutOff
from platform_core.jobs.kind import JobKind
from platform_core.jobs.launching import Strategy
from platform_core.serving import spec as specification
from platform_core.serving.canary import CanaryPolicy
from platform_core.serving.spec import EndpointSpec
from platform_core.serving.states import EndpointState, ReplicaState
from platform_core.units import MINUTE_MS
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.accounts.queries import actor_of
from webapp.base.identity import new_id, now_ms
from webapp.events import services as events
from webapp.jobs import services as jobs
from webapp.registry import queries as registry
from webapp.registry import services as registry_services
from webapp.serving import collecting, queries
from webapp.serving.answers import keep_answers, label
from webapp.serving.models import Endpoint, Replica, ShadowSample, TrafficSample
from webapp.serving.values import ROUTES, ShadowCount, TrafficCount
from webapp.sockets import services as sockets

__all__ = [
    "change_version",
    "count_shadows",
    "count_traffic",
    "create",
    "drain_replicas",
    "end_canary",
    "follow",
    "healthy",
    "keep_answers",
    "label",
    "promote",
    "publish_collected",
    "replica_spec",
    "roll_back",
    "scale",
    "settle",
    "start_replica",
    "stop",
    "stop_replica",
    "wake",
]

FOLLOW_WATCH_MS = 5 * MINUTE_MS  # of a version that an alias has moved to
LONGEST_HOURS = 720  # in the queue's forecasts; nothing ends a replica for its time


def create(actor: Actor, mapping: object) -> Endpoint:
    """Raises SpecError for a bad mapping, TrainmasterError of not_found, not_allowed and name_taken."""
    spec = specification.parse(mapping)
    permissions.require(actor, "endpoint.create", spec.team)
    permissions.require_priority(actor, spec.team, spec.priority)
    version_id = _version(spec.team, spec.model, spec.version, spec.alias)
    now = now_ms()
    try:
        with transaction.atomic():
            row = Endpoint.objects.create(
                id=new_id("ep"),
                team_id=spec.team,
                user=accounts.user(actor.username),
                name=spec.name,
                spec=specification.as_mapping(spec),
                stable_id=version_id,
                followed_id=version_id if spec.alias else None,
                wanted=max(1, spec.min_replicas),
                created_ms=now,
            )
            jobs.check_references(replica_spec(row, version_id, spec.name))
            _tell(
                row,
                "EndpointCreated",
                actor.name,
                f"{spec.model}, {spec.min_replicas} to {spec.max_replicas}",
            )
            return row
    except IntegrityError:
        why = f"the team has an endpoint {spec.name} already; stop it first, or choose another name"
        raise TrainmasterError("request_invalid", what="name", why=why) from None


def scale(actor: Actor, team: str, name: str, minimum: int, maximum: int) -> Endpoint:
    """Changes the least and the greatest number of replicas."""
    with transaction.atomic():
        row = _locked(actor, team, name, "endpoint.change")
        spec = specification.parse(row.spec | {"min_replicas": minimum, "max_replicas": maximum})
        row.spec = specification.as_mapping(spec)
        row.wanted = min(max(row.wanted, spec.min_replicas), spec.max_replicas)
        row.save(update_fields=["spec", "wanted"])
        _tell(row, "EndpointScaled", actor.name, f"{minimum} to {maximum} replicas")
        return row


def change_version(actor: Actor, team: str, name: str, version: int, policy: CanaryPolicy) -> Endpoint:
    """Begins a canary with another version of the model; it is judged by the policy."""
    with transaction.atomic():
        row = _locked(actor, team, name, "endpoint.change")
        if row.canary_id is not None:
            why = f"version {row.canary.version if row.canary else ''} is being watched; promote it or roll it back"
            raise TrainmasterError("request_invalid", what=f"version {version}", why=why)
        version_id = _version(team, row.stable.model.name, version)
        if version_id == row.stable_id:
            why = f"{name} serves it already"
            raise TrainmasterError("request_invalid", what=f"version {version}", why=why)
        if policy.shadow and not row.spec["retry"]:
            why = f"a shadow answers requests a second time, and retry is false for {name}"
            raise TrainmasterError("request_invalid", what="shadow", why=why)
        row.canary_id, row.canary_policy = version_id, asdict(policy)
        row.canary_since_ms, row.canary_ready_ms, row.verdict = now_ms(), None, ""
        row.save()
        _tell(
            row,
            "ShadowStarted" if policy.shadow else "CanaryStarted",
            actor.name,
            f"version {version} with {policy.share / 100:g} % of the requests",
        )
        return row


def follow(row: Endpoint) -> None:
    """Begins a canary with the version that the alias of the endpoint has moved to, inside the caller's transaction.

    Each move is tried once, as who made the endpoint. What refuses it is said as the verdict.
    """
    spec = specification.load(row.spec)
    if not spec.alias or row.canary_id is not None or row.stopped:
        return
    named = registry.of_alias(row.stable.model, spec.alias)
    if named is None or named.id == row.followed_id:
        return
    row.followed_id = named.id
    row.save(update_fields=["followed"])
    if named.id == row.stable_id:
        return
    try:
        with transaction.atomic():
            actor = actor_of(row.user)
            change_version(
                actor, row.team_id, row.name, named.version, CanaryPolicy(watch_ms=FOLLOW_WATCH_MS)
            )
    except TrainmasterError as error:
        verdict = f"{spec.alias} is version {named.version}, which is not tried: {error.sentence}"
        Endpoint.objects.filter(id=row.id).update(verdict=verdict)
    row.refresh_from_db()


def promote(actor: Actor, team: str, name: str) -> Endpoint:
    with transaction.atomic():
        row = _watched(actor, team, name)
        end_canary(row, promoted=True, actor=actor.name, reason=f"promoted by {actor.username}")
        return row


def roll_back(actor: Actor, team: str, name: str) -> Endpoint:
    with transaction.atomic():
        row = _watched(actor, team, name)
        end_canary(row, promoted=False, actor=actor.name, reason=f"rolled back by {actor.username}")
        return row


def end_canary(row: Endpoint, *, promoted: bool, actor: str, reason: str) -> None:
    """Inside the caller's transaction. A router that reads its routes after it asks no replica that was rolled back."""
    canary, role = row.canary_id, "Shadow" if queries.canary_policy(row).shadow else "Canary"
    if promoted:
        assert canary is not None
        row.stable_id = canary
    row.canary_id, row.canary_since_ms, row.canary_ready_ms, row.verdict = None, None, None, reason
    row.save()
    if not promoted:
        rolled_back = Replica.objects.filter(endpoint=row, model_version=canary).exclude(
            state=ReplicaState.ENDED
        )
        drain_replicas(list(rolled_back.values_list("id", flat=True)), now_ms())
    _tell(row, f"{role}Promoted" if promoted else f"{role}RolledBack", actor, reason)


def stop(actor: Actor, team: str, name: str) -> Endpoint:
    """Ends all of its replicas; its name is free again once they have ended."""
    with transaction.atomic():
        row = _locked(actor, team, name, "endpoint.change")
        row.stopped, row.state = True, EndpointState.STOPPING
        row.save(update_fields=["stopped", "state"])
        _tell(row, "EndpointStopped", actor.name, "")
        return row


def publish_collected(actor: Actor, team: str, name: str) -> Endpoint:
    """Makes a version of the dataset of its requests now."""
    with transaction.atomic():
        row = _locked(actor, team, name, "endpoint.change")
    version = collecting.publish(row)
    with transaction.atomic():
        _tell(row, "RequestsPublished", actor.name, f"{queries.collected_name(row)} version {version}")
    return row


def start_replica(row: Endpoint, version_id: str) -> None:
    """Submits the job of one more replica, inside the caller's transaction, in the name of who made the endpoint."""
    key = new_id("rep")
    owner = Actor(row.user.username, is_admin=True)  # it was allowed when the endpoint was made
    job, _ = jobs.accept(owner, replica_spec(row, version_id, f"{row.name}-{key[-4:]}"), pinned=True)
    Replica.objects.create(
        id=key,
        endpoint=row,
        job=job,
        model_version_id=version_id,
        state=ReplicaState.WAITING,
        since_ms=now_ms(),
    )


def replica_spec(row: Endpoint, version_id: str, name: str) -> jobs_specification.JobSpec:
    spec = specification.load(row.spec)
    version = registry.version(version_id)
    if version is None:
        raise TrainmasterError("not_found", what=f"model version {version_id}")
    return jobs_specification.parse({
        "name": name, "team": row.team_id, "kind": JobKind.SERVICE.value, "strategy": Strategy.CUSTOM.value,
        "command": list(_command(spec, version.version)), "gpu_type": spec.gpu_type, "num_gpus": spec.gpus,
        "cpus_per_gpu": spec.cpus, "memory_per_gpu": spec.memory_bytes, "priority": spec.priority,
        "max_runtime_hours": LONGEST_HOURS, "code": spec.code, "model": f"{version.model.name}:{version.version}",
        "project": f"endpoint {row.name}", "when_cut_off": WhenCutOff.OVERLAP.value,
        **({"parallel": {"tp": spec.gpus}} if spec.gpus > 1 else {}),  # which keeps them on one node
    })  # fmt: skip


def _command(spec: EndpointSpec, version: int) -> tuple[str, ...]:
    options: tuple[str, ...] = ("--entry", spec.entry) if spec.entry else ()
    options += ("--gpus", str(spec.gpus)) if spec.gpus > 1 else ()
    options += ("--compile",) if spec.compile else ()
    return (
        *("python", "-m", "trainmaster.serving", "--runtime", spec.runtime.value, *options),
        *("--name", spec.name, "--version", str(version), "--max-batch", str(spec.max_batch)),
        *("--max-tokens", str(spec.max_tokens), "--queue", str(spec.queue)),
    )


def drain_replicas(replica_ids: Collection[str], now: int) -> None:
    Replica.objects.filter(id__in=replica_ids).update(state=ReplicaState.DRAINING, since_ms=now)
    sockets.publish(ROUTES)


def stop_replica(row: Endpoint, replica: Replica, now: int) -> None:
    """Inside the caller's transaction. Its server answers what it has before it ends."""
    Replica.objects.filter(id=replica.id).update(state=ReplicaState.ENDED, since_ms=now)
    sockets.publish(ROUTES)
    try:
        jobs.cancel(SYSTEM, replica.job_id, f"endpoint {row.name} needs it no longer")
    except IllegalTransition:
        return  # it has ended by itself


def settle(row: Endpoint, state: EndpointState, now: int) -> None:
    """Keeps the state that follows from the replicas, inside the caller's transaction."""
    if state in (EndpointState.SERVING, EndpointState.IDLE):
        row.reason = ""
    if state is EndpointState.SERVING:
        row.was_ready = True
    if state is EndpointState.STOPPED:
        row.stopped_ms = now
    if state != row.state:
        row.state = state
        _tell(row, f"Endpoint{state.value.title()}", "system", row.reason)
    row.save(update_fields=["state", "reason", "was_ready", "stopped_ms"])


def wake(endpoint_id: str) -> None:
    """Somebody asks an endpoint that is scaled to zero."""
    Endpoint.objects.filter(id=endpoint_id, wanted=0, stopped=False).update(
        wanted=1, scaling_reason="a request came"
    )


def healthy(attempts: Mapping[str, int]) -> None:
    """Takes the replicas that a router has found ready, with the attempts that they are in."""
    now = now_ms()
    for replica_id, attempt in attempts.items():
        Replica.objects.filter(id=replica_id).update(healthy_ms=now, healthy_attempt=attempt)


def count_traffic(router: str, counts: Sequence[TrafficCount]) -> None:
    """Keeps what a router saw; the newest of the same ten seconds replaces the earlier."""
    TrafficSample.objects.bulk_create(
        [
            TrafficSample(
                endpoint_id=one.endpoint_id, model_version_id=one.version_id, router=router, at_ms=one.at_ms,
                requests=one.requests, errors=one.errors, in_flight_ms=one.in_flight_ms,
                latencies=list(one.latencies),
            )
            for one in counts
        ],
        update_conflicts=True,
        unique_fields=["endpoint", "model_version", "router", "at_ms"],
        update_fields=["requests", "errors", "in_flight_ms", "latencies"],
    )  # fmt: skip
    for endpoint_id in {one.endpoint_id for one in counts}:
        sockets.publish(f"endpoint:{endpoint_id}")


def count_shadows(router: str, counts: Sequence[ShadowCount]) -> None:
    """As `count_traffic`, of shadows."""
    ShadowSample.objects.bulk_create(
        [
            ShadowSample(
                endpoint_id=one.endpoint_id, model_version_id=one.version_id, router=router, at_ms=one.at_ms,
                requests=one.requests, errors=one.errors, latencies=list(one.latencies), compared=one.compared,
                alike=one.alike, difference=one.difference,
            )
            for one in counts
        ],
        update_conflicts=True,
        unique_fields=["endpoint", "model_version", "router", "at_ms"],
        update_fields=["requests", "errors", "latencies", "compared", "alike", "difference"],
    )  # fmt: skip
    for endpoint_id in {one.endpoint_id for one in counts}:
        sockets.publish(f"endpoint:{endpoint_id}")


def _version(team: str, model: str, number: int, alias: str = "") -> str:
    row = registry.model(team, model)
    versions = [] if row is None else registry.versions(row)
    if row is None:
        raise TrainmasterError("not_found", what=f"model {model} in team {team}")
    if alias:
        named = registry.of_alias(row, alias)
        if named is None:
            raise TrainmasterError("not_found", what=f"alias {alias} of model {model}")
        number = named.version
    chosen = [one for one in versions if one.version == number or (number == 0 and one.state == "ready")]
    if not chosen:
        raise TrainmasterError("not_found", what=f"version {number} of model {model}")
    if chosen[0].state != "ready":
        why = f"it is {chosen[0].state}; only a version that is ready can be served"
        raise TrainmasterError("request_invalid", what=f"version {chosen[0].version} of {model}", why=why)
    registry_services.require_proven(chosen[0], "be served")
    return chosen[0].id


def _locked(actor: Actor, team: str, name: str, action: str) -> Endpoint:
    what = f"endpoint {name} in team {team}"
    row = queries.living(None).filter(team=team, name=name).select_for_update(of=("self",)).first()
    if row is None:
        permissions.require(actor, "endpoint.view", team, what=what)
        raise TrainmasterError("not_found", what=what)
    permissions.require(actor, action, team, owner=row.user.username, what=what)
    if row.stopped:
        raise TrainmasterError("request_invalid", what=what, why="it is being stopped")
    return row


def _watched(actor: Actor, team: str, name: str) -> Endpoint:
    row = _locked(actor, team, name, "endpoint.change")
    if row.canary_id is None:
        why = "no canary is being watched; change the version first"
        raise TrainmasterError("request_invalid", what=f"endpoint {name}", why=why)
    return row


def _tell(row: Endpoint, kind: str, actor: str, cause: str) -> None:
    events.record(
        kind, f"endpoint:{row.id}", actor=actor, team=row.team_id, cause=cause,
        data={"name": row.name, "state": row.state}, notify=(f"endpoints:{row.team_id}",),
    )  # fmt: skip
    sockets.publish(f"endpoint:{row.id}")
    sockets.publish(ROUTES)
