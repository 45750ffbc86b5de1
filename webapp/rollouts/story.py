"""The story of a rollout: a sentence for everything that a person will ask about afterwards."""

from datetime import UTC, datetime

from platform_core.distribution.rollouts import states
from platform_core.distribution.rollouts.canaries import RolloutPlan
from platform_core.distribution.rollouts.checks import how_it_ended, how_the_switch_ended
from platform_core.distribution.rollouts.states import DESCRIPTION, Member, MemberState, Rollout, RolloutState
from platform_core.units import format_duration_ms
from webapp.deployments.models import Deployment
from webapp.events import services as events
from webapp.nodes import queries as clusters

_KINDS = {
    RolloutState.PROMOTING: "RolloutScheduled",
    RolloutState.ACTIVE: "RolloutCompleted",
    RolloutState.FAILED: "RolloutFailed",
    RolloutState.ROLLED_BACK: "RolloutRolledBack",
}


def begun(row: Deployment, value: Rollout, actor: str) -> None:
    plan = value.plan
    parts = [f"version {row.model_version.version} will be made active"]
    if plan.canaries:
        parts.append(f"on {plan.canaries} of {len(value.members)} nodes first")
    if plan.health_check:
        parts.append(watch(plan))
    if plan.wait_for_all:
        parts.append("when every node holds it")
    _record(row, "RolloutPlanned", actor, ", ".join(parts))


def watch(plan: RolloutPlan) -> str:
    """The health check in words."""
    sentence = f"health check {plan.health_check}"
    if plan.check_every_ms and plan.hold_ms != 0:
        sentence += f" every {format_duration_ms(plan.check_every_ms)}"
    if plan.roll_back_after:
        failures = f"{plan.roll_back_after} failures in a row take"
        sentence += f", {failures if plan.roll_back_after > 1 else 'the first failure takes'} every node back"
    return sentence


def tell(row: Deployment, before: Rollout, after: Rollout, event: states.Event) -> None:
    """What this event was, and what came of it."""
    match event:
        case states.PromoteRequested() if after != before:
            _record(row, "PromotionRequested", event.actor, "the canaries have been watched long enough")
        case states.TimePassed() if after.released and not before.released:
            _record(row, "HoldOver", event.actor, "the canaries have been watched for the time that was set")
        case states.RetryRequested() if after != before:
            _record(row, "RolloutRetryRequested", event.actor, "what failed is tried again")
        case states.RollBackRequested() if after != before:
            _record(row, "RollbackRequested", event.actor, "every node shall run what it ran before")
    changed = [(old, new) for old, new in zip(before.members, after.members, strict=True) if old != new]
    names = clusters.hostnames([new.node for _, new in changed])
    for old, new in changed:
        for kind, sentence in _member(row, after, old, new):
            _record(row, kind, event.actor, f"{names[new.node]} {sentence}", event.at_ms)
    if before.state != after.state:
        cause = after.reason or DESCRIPTION[after.state]
        if after.state is RolloutState.ROLLED_BACK and after.reason:
            cause = f"every node goes back: {after.reason}"
        _record(
            row, _KINDS.get(after.state, f"Rollout{after.state.title()}"), event.actor, cause, event.at_ms
        )


def _member(row: Deployment, after: Rollout, old: Member, new: Member) -> list[tuple[str, str]]:
    version, lines = row.model_version.version, []
    if old.state != new.state:
        if new.state is MemberState.ACTIVE:
            lines.append(("VersionActivated", f"runs version {version}"))
        elif new.state is MemberState.FAILED:
            silent = new.exit_code is None
            said_last = "" if silent else _last_line(new.output)
            sentence = f"{how_the_switch_ended(after.plan, new)}{said_last}"
            lines.append(("ActivationFailed", f"{'is to go' if silent else 'went'} back: {sentence}"))
        elif new.state is MemberState.RETURNED:
            trouble = f", but its hook ended with {new.exit_code}{_last_line(new.output)}" * bool(
                new.exit_code
            )
            lines.append(("VersionReturned", f"runs what it ran before version {version}{trouble}"))
    if new.check is not None and old.check != new.check:
        check, command, most = new.check, after.plan.health_check, after.plan.roll_back_after
        if check.exit_code == 0 and (after.released or old.check is None or old.check.exit_code != 0):
            lines.append(("HealthCheckSucceeded", f"passed {command}"))  # once, not every few seconds
        elif check.exit_code != 0:
            often = f"; {check.failures} of {most} in a row" if most > 1 else ""
            ended = how_it_ended(command, check.exit_code, check.output)
            said_last = _last_line(check.output) if check.exit_code is not None else ""
            lines.append(("HealthCheckFailed", f"is not well: {ended}{said_last}{often}"))
    return lines


def clock(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M:%S} UTC"


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""


def _record(row: Deployment, kind: str, actor: str, cause: str, at_ms: int | None = None) -> None:
    events.record(
        kind, f"deployment:{row.id}", actor=clusters.with_hostnames(actor), team=row.team_id,
        cause=clusters.with_hostnames(cause), at_ms=at_ms, data={"name": str(row.model_version)},
        notify=(f"deployments:{row.team_id}",),
    )  # fmt: skip
