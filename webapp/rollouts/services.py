"""The verbs of a rollout: deploy, take what nodes hold and report, promote, roll back, and look at the clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import Q

from platform_core.distribution.deployments.deployment import DeploymentState, WorkerState
from platform_core.distribution.planning.routes import Place
from platform_core.distribution.rollouts import rollout as core
from platform_core.distribution.rollouts import states
from platform_core.distribution.rollouts.canaries import RolloutPlan, canary_count, spread
from platform_core.distribution.rollouts.checks import answer_due_ms, switch_due_ms, unanswered
from platform_core.distribution.rollouts.states import Member, MemberState, RolloutState
from platform_core.errors import IllegalTransition, TrainmasterError
from platform_core.node.observed import ActivationObserved, ActivationState
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.deployments import services as deployments
from webapp.deployments.models import Deployment, Worker
from webapp.deployments.values import Manner
from webapp.nodes import queries as cluster_queries
from webapp.nodes import services as clusters
from webapp.rollouts import mapping, story
from webapp.rollouts.models import Rollout, RolloutMember
from webapp.rollouts.values import RolloutWish
from webapp.sockets import services as sockets

LOST = "its node is lost"


class Owed(NamedTuple):
    """An answer: how the switch went, or with revision 0 the health check."""

    node: str
    since_ms: int
    due_ms: int
    revision: int = 0
    looks: bool = False  # at its copy, as an agent does when it starts


def deploy(
    actor: Actor, model_id: str, version: int, *, wish: RolloutWish | None, target_workers: Sequence[str] = (),
    source_url: str = "", manner: Manner = Manner(),
) -> Deployment:  # fmt: skip
    """Copies a model version to nodes, and makes it active there as the wish says; without one it only copies."""
    if wish is not None and manner.preheat:
        why = "what is preheated is never made active"
        raise TrainmasterError("request_invalid", what="rollout", why=why)
    prepared = deployments.prepare(actor, model_id, version, target_workers, source_url, manner)
    plan = None if wish is None else _plan(wish, len(prepared.places))
    with transaction.atomic():
        row = deployments.begin(actor, prepared)
        if plan is not None:
            _begin(actor, row, plan, prepared.places)
        return row


def _plan(wish: RolloutWish, nodes: int) -> RolloutPlan:
    """The wish, checked against the number of nodes."""
    canaries = canary_count(wish.canary, nodes) if wish.canary else 0
    watched = canaries or wish.hold_seconds is not None or wish.health_check
    hold_ms = None if wish.hold_seconds is None else wish.hold_seconds * 1000
    return RolloutPlan(
        canaries=canaries,
        hold_ms=hold_ms if watched else 0,
        health_check=wish.health_check,
        check_every_ms=wish.check_every_seconds * 1000,
        roll_back_after=wish.roll_back_after,
        hook=wish.hook,
        wait_for_all=wish.wait_for_all,
        command_seconds=wish.command_seconds,
    )


def _begin(actor: Actor, row: Deployment, plan: RolloutPlan, places: Sequence[Place]) -> None:
    """Creates the rollout, inside the transaction that makes the deployment. A model has one rollout at a time."""
    model = row.model_version.model
    other = Rollout.objects.filter(model=model, state__in=core.UNSETTLED).select_for_update().first()
    if other is not None:
        version = other.deployment.model_version.version
        why = f"that of version {version} ({other.pk}) is {other.state}; promote it or roll it back first"
        raise TrainmasterError("request_invalid", what=f"A rollout of {model}", why=why)
    value = core.begin(row.id, plan, spread(places))
    columns = mapping.rollout_columns(value) | mapping.plan_columns(plan)
    try:
        with transaction.atomic():
            rollout = Rollout.objects.create(deployment=row, model=model, **columns)
    except IntegrityError as error:
        why = "another one has just begun; look at it first"
        raise TrainmasterError("request_invalid", what=f"A rollout of {model}", why=why) from error
    RolloutMember.objects.bulk_create(
        RolloutMember(
            rollout=rollout, node_id=member.node, position=position, **mapping.member_columns(member)
        )
        for position, member in enumerate(value.members)
    )
    story.begun(row, value, actor.name)


def copies_have_changed(row: Deployment, nodes: Sequence[str], **_: Any) -> None:
    """Follows a deployment, inside its transaction."""
    follow(row, nodes)


def follow(row: Deployment, nodes: Sequence[str] | None = None) -> None:
    """Brings the rollout up to what these nodes (None: all) hold by now, and which of them are lost.

    Inside the caller's transaction, which holds the row.
    """
    known = Rollout.objects.filter(deployment=row).values_list("deployment__state", flat=True).first()
    if known is None:
        return
    if known == DeploymentState.CANCELLED:
        _advance(row, [states.RollBackRequested(now_ms(), "system")])
        return
    members, workers = RolloutMember.objects.filter(rollout=row.id), Worker.objects.filter(deployment=row)
    if nodes is not None:
        members, workers = members.filter(node__in=nodes), workers.filter(node__in=nodes)
    by_node = {
        worker.node_id: worker for worker in workers.select_related("node").defer("chunks_done", "lanes")
    }
    now = now_ms()
    parts = members.values_list("node_id", "state", "why")
    events = [_holding(by_node[node], MemberState(state), why, now) for node, state, why in parts]
    _advance(row, [event for event in events if event is not None and not _comes_back(row, event)])


def _comes_back(row: Deployment, event: states.NodeEvent) -> bool:
    """Whether the node fetches this version again only to be able to roll back to it."""
    if not isinstance(event, states.NodeLacks) or event.why:
        return False
    newer = RolloutMember.objects.filter(
        node=event.node, state__in=list(states.TOLD), rollout__model=row.rollout.model_id
    )
    return newer.filter(rollout__deployment__created_ms__gt=row.created_ms).exists()


def _holding(worker: Worker, state: MemberState, why: str, now: int) -> states.NodeEvent | None:
    lost, node = worker.node.state == "lost", worker.node_id
    if worker.state == WorkerState.COMPLETE:
        if lost:  # a node that runs the version goes on; one that was just told may never hear of it
            return states.NodeLacks(now, "system", node, LOST) if state is MemberState.SWITCHING else None
        return states.NodeHolds(now, f"node:{node}", node) if state is MemberState.WAITING else None
    looks_again = worker.state == WorkerState.RECEIVING and worker.bytes_done >= worker.bytes_total
    if looks_again and state is not MemberState.WAITING:
        return None  # an agent that has just started looks at what it holds
    reason = worker.error if worker.state in (WorkerState.FAILED, WorkerState.EVICTED) else ""
    if state is MemberState.WAITING and why == reason:
        return None
    return states.NodeLacks(now, f"node:{node}", node, reason)


def observe(activations: Mapping[str, Sequence[ActivationObserved]]) -> None:
    """Takes all that is active, by node: a model that a node does not name has no link there."""
    on_the_way = Q(state__in=[MemberState.SWITCHING, MemberState.RETURNING])
    watched = Q(
        canary=True, state=MemberState.ACTIVE, rollout__state__in=[RolloutState.HOLDING, RolloutState.FAILED]
    )
    parts = RolloutMember.objects.filter(on_the_way | watched, node__in=activations).select_related(
        "rollout__model"
    )
    now = now_ms()
    events: dict[str, list[states.NodeEvent]] = defaultdict(list)
    for part in parts:
        of_model = (report for report in activations[part.node_id] if report.model == str(part.rollout.model))
        events[part.rollout_id] += _reported(part, next(of_model, None), now)
    for rollout_id, happened in sorted(events.items()):
        if happened:
            with transaction.atomic():
                _advance(_locked(rollout_id), happened)


def _reported(part: RolloutMember, report: ActivationObserved | None, now: int) -> Iterable[states.NodeEvent]:
    node, actor = part.node_id, f"node:{part.node_id}"
    ours = report is not None and report.deployment_id == part.rollout_id
    if part.state == MemberState.RETURNING:
        if report is None:
            yield states.NodeReturned(now, actor, node)
        elif not ours and report.state is not ActivationState.SWITCHING:
            yield states.NodeReturned(now, actor, node, report.exit_code, report.output)
    elif report is not None and ours:
        if part.state == MemberState.SWITCHING and report.state is ActivationState.ACTIVE:
            yield states.NodeSwitched(now, actor, node, report.revision)
        elif part.state == MemberState.SWITCHING and report.state is ActivationState.FAILED:
            yield states.SwitchFailed(now, actor, node, report.revision, report.exit_code, report.output)
        if report.round > (part.check_round or 0):
            yield states.CheckEnded(
                now, actor, node, report.round, report.check_exit_code, report.check_output
            )


def promote(actor: Actor, deployment_id: str) -> None:
    """Ends the hold: the canaries are checked once more, and the other nodes switch if they pass."""
    with transaction.atomic():
        row = _allowed(actor, deployment_id)
        _advance(row, [states.PromoteRequested(now_ms(), actor.name)])


def roll_back(actor: Actor, deployment_id: str) -> None:
    """Switches every node back to the version it ran before, whose files it still has."""
    with transaction.atomic():
        row = _allowed(actor, deployment_id)
        later = Rollout.objects.filter(
            model=row.rollout.model_id, deployment__created_ms__gt=row.created_ms
        ).exclude(state=RolloutState.ROLLED_BACK)
        if (newer := later.order_by("-deployment__created_ms").first()) is not None:
            version = newer.deployment.model_version.version
            sentence = f"Version {version} ({newer.pk}) came after {row.id}; roll that one back first"
            raise IllegalTransition(f"the rollout of {row.id}", row.rollout.state, "roll back", sentence)
        _advance(row, [states.RollBackRequested(now_ms(), actor.name)])


def retry(actor: Actor, deployment_id: str) -> None:
    """Failed copies, hooks and health checks are tried again; what the nodes hold already is not sent twice."""
    with transaction.atomic():
        row = deployments.retry(actor, deployment_id)
        if Rollout.objects.filter(deployment=row).exclude(state=RolloutState.ROLLED_BACK).exists():
            _advance(row, [states.RetryRequested(now_ms(), actor.name)])


def unsettled() -> list[str]:
    """Returns the rollouts in which something may happen that no node reports."""
    coming = Q(members__state__in=[MemberState.WAITING, MemberState.SWITCHING])
    late = Q(state=RolloutState.ACTIVE) & coming & ~Q(members__node__state="lost")
    rollouts = Rollout.objects.filter(Q(state__in=core.UNSETTLED) | late).order_by("pk").distinct()
    return list(rollouts.values_list("pk", flat=True))


def look_at_the_clock(rollout_id: str) -> None:
    """Inside the coordinator's transaction: a hold that is over, checks that are due, nodes that were lost or came back
    since."""
    row = _locked(rollout_id)
    follow(row)
    _advance(row, _without_answer(row, now_ms()))
    _advance(row, [states.TimePassed(now_ms(), "system")])


# -- inside


def _without_answer(row: Deployment, now: int) -> list[states.Event]:
    """Returns failures of the nodes that have not answered a switch or a health check in time.

    Only of nodes that are lost, or were heard since: of the others it is unknown whether they or the gateway were away.
    """
    rollout = Rollout.objects.get(deployment=row)
    asked = rollout.members.filter(Q(canary=True) | Q(state=MemberState.SWITCHING)).order_by("position")
    members = list(asked.select_related("node"))
    value = mapping.rollout_value(rollout, members)
    nodes, due = {member.node_id: member.node for member in members}, answer_due_ms(value)
    owed = [Owed(canary.node, rollout.asked_ms or 0, due) for canary in unanswered(value) if due is not None]
    late = [answer for answer in (*owed, *switches(row, value)) if now >= answer.due_ms]
    heard = cluster_queries.last_seen({answer.node: nodes[answer.node].last_seen_ms for answer in late})
    events: list[states.Event] = []
    for answer in late:
        node, why = nodes[answer.node], f"no answer since {story.clock(answer.since_ms)}"
        if node.state == "lost" or node.revoked_ms is not None:
            why += f"; the node is gone, last heard {story.clock(heard[answer.node])}"
        elif heard[answer.node] >= answer.due_ms:
            why += ", though the node is there"
            why += " and looks at its copy again; is its disk well?" if answer.looks else ""
        else:
            continue
        if answer.revision:
            events.append(states.SwitchFailed(now, "system", answer.node, answer.revision, None, why))
        else:
            events.append(states.CheckEnded(now, "system", answer.node, rollout.round, None, why))
    return events


def switches(row: Deployment, value: states.Rollout) -> list[Owed]:
    """Returns the nodes that owe an answer to a switch.

    A node whose copy is not complete verifies it again: otherwise it would no longer be told to switch.
    """
    switching = [member for member in value.members if member.state is MemberState.SWITCHING]
    parts = Worker.objects.filter(deployment=row, node__in=[member.node for member in switching])
    copies = {part.node_id: part for part in parts.only("node_id", "state", "finished_ms", "bytes_total")}
    owed = []
    for member in switching:
        copy = copies[member.node]
        looks = copy.state != WorkerState.COMPLETE
        held_ms, bytes_left = (0, copy.bytes_total) if looks else (copy.finished_ms or 0, 0)
        due = switch_due_ms(value, member, held_ms, bytes_left)
        if due is not None:
            owed.append(Owed(member.node, member.told_ms or 0, due, member.revision, looks))
    return owed


def _locked(deployment_id: str) -> Deployment:
    rows = Deployment.objects.select_for_update(of=("self",))
    return rows.select_related("model_version__model", "user").get(id=deployment_id)


def _allowed(actor: Actor, deployment_id: str) -> Deployment:
    subject = f"deployment {deployment_id}"
    if not Deployment.objects.filter(id=deployment_id).exists():
        raise TrainmasterError("not_found", what=subject)
    row = _locked(deployment_id)
    permissions.require(actor, "deployment.switch", row.team_id, owner=row.user.username, what=subject)
    if not Rollout.objects.filter(deployment=row).exists():
        why = "it only brought the bytes; deploy the version with a rollout to make it active"
        raise TrainmasterError("request_invalid", what=f"A rollout of {deployment_id}", why=why)
    return row


def _advance(row: Deployment, events: Sequence[states.Event]) -> None:
    """Applies the events in order, writes rows and events. Inside the caller's transaction, which holds the row."""
    if not events:
        return
    rollout = Rollout.objects.get(deployment=row)
    members = RolloutMember.objects.filter(rollout=rollout).order_by("position")
    rows: list[Any] = list(members.values_list(named=True))  # a thousand are read at each word of a node
    value = first = mapping.rollout_value(rollout, rows)
    to_tell: set[str] = set()
    for event in events:
        try:
            step = core.advance(value, event)
        except IllegalTransition:
            if isinstance(event, states.NodeEvent | states.TimePassed):
                continue  # a late report
            raise
        story.tell(row, value, step.rollout, event)
        value = step.rollout
        to_tell |= set(step.tell)
    if value == first:
        return
    columns = mapping.rollout_columns(value)
    reason = cluster_queries.with_hostnames(value.reason)
    Rollout.objects.filter(pk=rollout.pk, version=first.version).update(**columns | {"reason": reason})
    _save([row.id for row in rows], first.members, value.members)
    clusters.touch(sorted(to_tell))
    sockets.publish(f"deployment:{row.id}")


def _save(ids: Sequence[int], before: Sequence[Member], after: Sequence[Member]) -> None:
    for key, old, new in zip(ids, before, after, strict=True):
        if old != new:
            RolloutMember.objects.filter(id=key).update(**mapping.member_columns(new))
