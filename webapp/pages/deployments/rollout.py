"""A rollout in words and numbers: what stands in the way first, then canary after canary."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from platform_core.distribution.rollouts.checks import answer_due_ms, how_it_ended, next_check_ms, unanswered
from platform_core.distribution.rollouts.rollout import active_on, hold_ends_ms
from platform_core.distribution.rollouts.states import DESCRIPTION, MemberState, RolloutState
from platform_core.distribution.rollouts.states import Rollout as Value
from platform_core.units import format_duration_ms
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.deployments.models import Deployment
from webapp.nodes.queries import with_hostnames
from webapp.rollouts import queries as rollout_queries
from webapp.rollouts.mapping import rollout_value
from webapp.rollouts.models import Rollout, RolloutMember
from webapp.rollouts.services import Owed, switches
from webapp.rollouts.story import clock, watch

SHOWN = 50
SAID = 5  # of the commands that failed, in full

_S, _M = RolloutState, MemberState
# What needs attention first.
_ORDER = (_M.FAILED, _M.RETURNING, _M.SWITCHING, _M.WAITING, _M.READY, _M.ACTIVE, _M.RETURNED)
_STOPPED = {
    False: "A canary failed, so no other node switches. Fix the cause and retry, or roll back.",
    True: "No node could switch. Fix the cause and retry, or roll back.",
}
_WORDS = {
    _M.WAITING: "no copy yet",
    _M.READY: "not yet",
    _M.RETURNING: "going back",
    _M.RETURNED: "went back",
}


def badge(row: Deployment) -> dict[str, str] | None:
    """Its state in a word beside the deployment's; None where there is no rollout."""
    rollout = getattr(row, "rollout", None)
    if rollout is None:
        return None
    if replaced := _replaced(rollout):
        return {"state": _S.ROLLED_BACK, "word": replaced}
    word = rollout.state.replace("_", " ")
    return {"state": rollout.state, "word": word if word in ("active", "rolled back") else f"rollout {word}"}


def panel(row: Deployment, actor: Actor, now_ms: int) -> dict[str, Any] | None:
    """None where the deployment only brings the bytes."""
    rollout = Rollout.objects.filter(deployment=row).first()
    if rollout is None:
        return None
    members = list(rollout.members.select_related("node").order_by("position"))
    value = rollout_value(rollout, members)
    before, newer, replaced = _before(row, members), _newer(row), _replaced(rollout)
    lines = sorted(
        (_line(member, rollout, before[member.node_id], replaced) for member in members),
        key=lambda line: (not line["canary"], _ORDER.index(line["member_state"])),
    )
    may = permissions.may(actor, "deployment.switch", row.team_id, row.user.username)
    return {
        "state": _S.ROLLED_BACK if replaced else rollout.state,
        "word": replaced or rollout.state.replace("_", " "),
        "badge": badge(row),
        "answer": _replacement(replaced)
        if replaced
        else _answer(value, switches(row, value), newer, now_ms) | _waits_for_lost(value, members),
        "said": [(line["node"], line["said"]) for line in lines if line["said"]][:SAID],
        "steps": [] if replaced or value.state is _S.ROLLED_BACK else _steps(value, now_ms),
        "plan": _plan(value),
        "checked": bool(value.plan.health_check),
        "members": lines[:SHOWN],
        "total": len(lines),
        "way_back": _way_back(members, before),
        "may": {
            "promote": may and value.state is _S.HOLDING and not value.released,
            "roll_back": may and value.state is not _S.ROLLED_BACK and not newer,
            "retry": bool(value.state is _S.FAILED or _count(value, _M.FAILED))
            and value.state is not _S.ROLLED_BACK
            and permissions.may(actor, "deployment.create", row.team_id),
        },
    }


def _answer(value: Value, unanswered: Sequence[Owed], newer: str, now_ms: int) -> dict[str, str]:
    active, total, canaries = _count(value, _M.ACTIVE), len(value.members), len(value.canaries)
    detail = DESCRIPTION[value.state]
    match value.state:
        case _S.DISTRIBUTING:
            who = "every node" if value.plan.wait_for_all else "the first nodes"
            tone, headline = "run", f"No node has switched; {who} must receive the version first"
            detail = value.reason or detail
        case _S.CANARY:
            ran = sum(member.state is _M.ACTIVE for member in value.canaries)
            tone, headline = "run", f"{ran} of {_canaries(canaries)} run it"
            detail = f"{detail} {_switching(unanswered)}".strip()
        case _S.HOLDING:
            verb = "runs" if canaries == 1 else "run"
            tone, headline = (
                "wait",
                f"{_canaries(canaries)} {verb} it; {_until(value, now_ms)}",
            )
            detail = " ".join(
                filter(None, (value.reason and f"{value.reason}.", detail, _checks(value, now_ms)))
            )
        case _S.PROMOTING:
            tone, headline = "run", f"Active on {active} of {total} nodes"
            detail = f"{detail} {_switching(unanswered)}".strip()
        case _S.ACTIVE:
            tone, headline = "wait" if active < total else "ok", f"Active on {active} of {total} nodes"
            detail = newer or value.reason or "Its link points to this version on every node."
        case _S.FAILED:
            tone, headline = "bad", f"Stopped. {value.reason}"
            detail = _STOPPED[value.promoted]
        case _:  # rolled back
            back, going = _count(value, _M.RETURNED), _count(value, _M.RETURNING)
            tone = "bad" if value.reason else "off"
            headline = f"Rolled back: {back} of {back + going} nodes run what they ran before"
            detail = f"By itself. {value.reason}." if value.reason else detail
    return {"tone": tone, "headline": headline, "detail": detail}


def _waits_for_lost(value: Value, members: Sequence[RolloutMember]) -> dict[str, str]:
    """Another detail where a node that is lost has yet to go back: nobody need wait for it."""
    lost = [m.node.hostname for m in members if m.state == _M.RETURNING and m.node.state == "lost"]
    if value.state is not _S.ROLLED_BACK or not lost:
        return {}
    others = f" and {len(lost) - 1} more are" if len(lost) > 1 else " is"
    verb = "go" if len(lost) > 1 else "goes"
    return {"detail": f"{lost[0]}{others} lost, and {verb} back when heard again. {value.reason}".strip()}


def _replacement(replaced: str) -> dict[str, str]:
    detail = "The nodes have gone on from this version. Roll that one back to come back to this."
    return {"tone": "off", "headline": f"{replaced[:1].upper()}{replaced[1:]}", "detail": detail}


def _canaries(count: int) -> str:
    return f"{count} canary" if count == 1 else f"{count} canaries"


def _until(value: Value, now_ms: int) -> str:
    if value.released:
        return "a health check decides"
    ends = hold_ends_ms(value)
    if ends is None:
        return "promote it, or roll it back"
    return f"the others follow in {format_duration_ms(max(0, ends - now_ms))}"


def _checks(value: Value, now_ms: int) -> str:
    """How often the canaries were asked, and when they are asked again."""
    if not value.plan.health_check:
        return ""
    rounds = f"{value.round} round{'s' if value.round != 1 else ''} of checks so far"
    if (due := next_check_ms(value)) is not None:
        return f"{rounds}; the next {f'in {format_duration_ms(due - now_ms)}' if due > now_ms else 'is due'}."
    owing, until = unanswered(value), answer_due_ms(value)
    if not owing or until is None or value.asked_ms is None:
        return f"{rounds}."
    others = f" and {len(owing) - 1} more" if len(owing) > 1 else ""
    asked, left = (format_duration_ms(max(0, ms)) for ms in (now_ms - value.asked_ms, until - now_ms))
    waits = f"no answer yet from {with_hostnames(owing[0].node)}{others}, asked {asked} ago"
    return f"{rounds}; {waits}. Without one in {left} the check counts as failed."


def _switching(unanswered: Sequence[Owed]) -> str:
    """Who was told to switch and has not told how that went."""
    if not unanswered:
        return ""
    first = min(unanswered, key=lambda one: one.due_ms)
    others = f" and {len(unanswered) - 1} more" if len(unanswered) > 1 else ""
    looks = ", which looks at its copy again" if first.looks else ""
    return (
        f"No word yet from {with_hostnames(first.node)}{others}{looks}; "
        f"without one by {clock(first.due_ms)} the switch has failed."
    )


def _steps(value: Value, now_ms: int) -> list[dict[str, Any]]:
    """The way as a strip; a step that nobody asked for is not on it."""
    canaries, total = len(value.canaries), len(value.members)
    ran = sum(member.state is _M.ACTIVE for member in value.canaries)
    here = sum(member.state is not _M.WAITING for member in value.members)
    active = _count(value, _M.ACTIVE)
    steps = [(_S.DISTRIBUTING, f"copies on {here} of {total}", 100 * here // total)]
    if value.plan.canaries:
        steps.append((_S.CANARY, f"canaries {ran} of {canaries}", 100 * ran // max(1, canaries)))
        steps.append((_S.HOLDING, "hold", _held(value, now_ms)))
    steps.append((_S.PROMOTING, f"all nodes {active} of {total}", 100 * active // total))
    steps.append((_S.ACTIVE, "active", 0))
    reached = _reached(value, [state for state, *_ in steps])
    ended_badly = value.state in (_S.FAILED, _S.ROLLED_BACK)
    lines = []
    for index, (_, words, percent) in enumerate(steps):
        state = "done" if index < reached or value.state is _S.ACTIVE else "todo"
        if state == "done" and percent < 100 and index == 0 and value.state is _S.PROMOTING:
            state = "now"  # each switches as soon as it has its copy
        if index == reached and value.state is not _S.ACTIVE:
            state = "failed" if ended_badly else "now"
        shown = {"done": 100, "now": percent, "failed": 100}.get(state, 0)
        lines.append({"words": words, "state": state, "percent": shown})
    return lines


def _reached(value: Value, steps: Sequence[RolloutState]) -> int:
    if value.state in steps:
        return steps.index(value.state)
    if value.promoted:
        return steps.index(_S.PROMOTING)
    if value.holding_since_ms is not None:
        return steps.index(_S.HOLDING)
    return steps.index(_S.CANARY) if _S.CANARY in steps and value.stopped else 0


def _held(value: Value, now_ms: int) -> int:
    ends = hold_ends_ms(value)
    if ends is None or not value.plan.hold_ms:
        return 100 if value.released else 0
    return max(0, min(100, 100 - 100 * (ends - now_ms) // value.plan.hold_ms))


def _plan(value: Value) -> str:
    """How it was ordered, in a line."""
    plan, parts = value.plan, []
    if plan.canaries:
        hold = (
            "until somebody promotes" if plan.hold_ms is None else f"for {format_duration_ms(plan.hold_ms)}"
        )
        parts.append(f"{_canaries(plan.canaries)} first" + (f", held {hold}" if plan.hold_ms != 0 else ""))
    if plan.health_check:
        parts.append(watch(plan))
    if plan.hook:
        parts.append(f"hook {plan.hook}")
    if plan.wait_for_all:
        parts.append("not before every node holds it")
    return " · ".join(parts) or "each node switches as soon as it holds the version"


def _line(member: RolloutMember, rollout: Rollout, before: str, replaced: str) -> dict[str, Any]:
    state = MemberState(member.state)
    words = "ran it" if replaced and state is _M.ACTIVE else _WORDS.get(state, state.value)
    switch = how_it_ended(rollout.hook or "the switch", member.exit_code, member.output)
    failed = bool(member.exit_code) or state is _M.FAILED  # a node that went back may tell of a hook too
    check, checked = member.check_exit_code, member.check_round is not None
    return {
        "node_id": member.node_id,
        "node": member.node.hostname,
        "rack": member.node.rack,
        "canary": member.canary,
        "member_state": state,
        "state": _M.WAITING if state is _M.READY or words == "ran it" else state.value,
        "words": words,
        "before": before,
        "note": switch if failed else member.why,
        "said": member.output if member.exit_code else member.check_output if check else "",
        "check": "" if not checked else ("passed" if check == 0 else _failed_check(member)),
        "failed": checked and check != 0,
        "check_state": "good" if check == 0 else "failed",
        "check_output": member.check_output,
    }


def _failed_check(member: RolloutMember) -> str:
    often = f", {member.check_failures} times in a row" if member.check_failures > 1 else ""
    ended = member.check_output if member.check_exit_code is None else f"ended with {member.check_exit_code}"
    return f"{ended}{often}"


def _before(row: Deployment, members: Sequence[RolloutMember]) -> dict[str, str]:
    """node → what it ran before this, as v3, or nothing."""
    parts: dict[str, list[tuple[str, MemberState]]] = {member.node_id: [] for member in members}
    names: dict[str, str] = {}
    earlier = RolloutMember.objects.filter(
        rollout__model=row.model_version.model_id,
        rollout__deployment__created_ms__lt=row.created_ms,
        node__in=parts,
    ).order_by("-rollout__deployment__created_ms", "-rollout_id")
    columns = ("node_id", "rollout_id", "state", "rollout__deployment__model_version__version")
    for node, rollout, state, version in earlier.values_list(*columns):
        parts[node].append((rollout, MemberState(state)))
        names[rollout] = f"v{version}"
    active = {node: active_on(part) for node, part in parts.items()}
    return {node: names[rollouts[0]] if rollouts else "nothing" for node, rollouts in active.items()}


def _replaced(rollout: Rollout) -> str:
    version = rollout_queries.replaced_by(rollout)
    return f"replaced by v{version}" if version else ""


def _newer(row: Deployment) -> str:
    later = Rollout.objects.filter(
        model=row.model_version.model_id, deployment__created_ms__gt=row.created_ms
    )
    newest = later.exclude(state=_S.ROLLED_BACK).order_by("-deployment__created_ms").first()
    return f"Version {newest.deployment.model_version.version} came after it." if newest else ""


def _way_back(members: Sequence[RolloutMember], before: dict[str, str]) -> str:
    """What a rollback would do."""
    versions = Counter(before[m.node_id] for m in members if m.state in (_M.SWITCHING, _M.ACTIVE))
    if not versions:
        return "No node has switched yet, so none has to go back. The rollout ends."
    goes = [
        f"{count} node goes back to {version}" if count == 1 else f"{count} nodes go back to {version}"
        for version, count in sorted(versions.items())
    ]
    return f"{', '.join(goes)}, at once; no bytes are moved."


def _count(value: Value, state: MemberState) -> int:
    return sum(member.state is state for member in value.members)
