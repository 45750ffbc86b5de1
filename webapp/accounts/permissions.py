"""Authorisation: a table from action to roles, and the functions `may` and `require` that read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from django.conf import settings

from platform_core.errors import TrainmasterError
from platform_core.jobs import urgency
from webapp.accounts.models import Role


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may do an action. A platform admin may do everything, so no rule names them."""

    words: str  # completes "You may not …"
    roles: frozenset[Role] = frozenset()
    own: frozenset[Role] = frozenset()  # roles that may do it to what is their own
    everyone: bool = False  # whoever is logged in, of any team or none


VIEWERS = frozenset({Role.VIEWER, Role.MEMBER, Role.LEAD})
MEMBERS = frozenset({Role.MEMBER, Role.LEAD})
LEADS = frozenset({Role.LEAD})

RULES: dict[str, Rule] = {
    "team.view": Rule("see this team", VIEWERS),
    "team.manage_members": Rule("change who belongs to this team", LEADS),
    "secret.manage": Rule("change the secrets of this team", LEADS),
    "token.create": Rule("make a token for this team", VIEWERS),
    "token.create_admin": Rule("make a token that acts as a platform admin"),
    "quota.view": Rule("see the quota of this team", VIEWERS),
    "quota.edit": Rule("change the quota of this team", LEADS),
    "job.view": Rule("see this job", VIEWERS),
    "job.submit": Rule("submit jobs for this team", MEMBERS),
    "job.cancel": Rule("cancel another person's job", LEADS, own=MEMBERS),
    "job.save": Rule("order and pin checkpoints of another person's job", LEADS, own=MEMBERS),
    "job.prioritise": Rule("change the priority of jobs", LEADS),
    "experiment.view": Rule("see this experiment", VIEWERS),
    "experiment.edit": Rule("log runs and change experiments of this team", MEMBERS),
    "experiment.delete": Rule("delete another person's runs and experiments", LEADS, own=MEMBERS),
    "report.view": Rule("see this report", VIEWERS),
    "report.edit": Rule("write, comment and share reports of this team", MEMBERS),
    "report.delete": Rule("delete another person's report or comment", LEADS, own=MEMBERS),
    "sweep.view": Rule("see this sweep", VIEWERS),
    "sweep.create": Rule("start sweeps for this team", MEMBERS),
    "sweep.steer": Rule("steer another person's sweep", LEADS, own=MEMBERS),
    "dataset.view": Rule("see this dataset", VIEWERS),
    "dataset.create": Rule("register datasets for this team", MEMBERS),
    "dataset.edit": Rule("describe datasets of this team", MEMBERS),
    "dataset.approve": Rule("decide what another person's dataset may be used for", LEADS, own=MEMBERS),
    "dataset.delete": Rule("delete versions of another person's dataset", LEADS, own=MEMBERS),
    "dataset.request": Rule("request access to datasets for this team", LEADS),
    "artifact.upload": Rule("upload files for this team", MEMBERS),
    "storage.keep": Rule("keep files of this team that nothing refers to", MEMBERS),
    "storage.limit": Rule("change the storage limits and the storage budget of this team"),
    "model.view": Rule("see this model", VIEWERS),
    "model.register": Rule("register models for this team", MEMBERS),
    "model.gate": Rule("change what versions of models must have proven", LEADS),
    "target.set": Rule("change the serving targets of this team", LEADS),
    "lineage.recall": Rule("recall another person's data, runs and models", LEADS, own=MEMBERS),
    "model.approve": Rule("approve versions of models", MEMBERS),
    "model.delete": Rule("delete another person's models", LEADS, own=MEMBERS),
    "suite.view": Rule("see this evaluation suite", VIEWERS),
    "suite.publish": Rule("publish evaluation suites of this team", LEADS),
    "suite.run": Rule("have versions of this team evaluated", MEMBERS),
    "retraining.view": Rule("see the retraining of this model", VIEWERS),
    "retraining.configure": Rule("change when models of this team are retrained", LEADS),
    "retraining.start": Rule("have models of this team retrained", MEMBERS),
    "retraining.decide": Rule("approve or end the retraining of models", LEADS),
    "deployment.view": Rule("see this deployment", VIEWERS),
    "deployment.create": Rule("deploy models of this team", MEMBERS),
    "deployment.cancel": Rule("cancel another person's deployment", LEADS, own=MEMBERS),
    "deployment.switch": Rule("promote or roll back another person's deployment", LEADS, own=MEMBERS),
    "alert.view": Rule("see the alerts of this team", VIEWERS),
    "alert.handle": Rule("acknowledge or silence alerts of this team", MEMBERS),
    "alert.configure": Rule("change alert rules and channels of this team", LEADS),
    "endpoint.view": Rule("see this endpoint", VIEWERS),
    "endpoint.call": Rule("call this endpoint", VIEWERS),
    "endpoint.label": Rule("send labels to endpoints of this team", MEMBERS),
    "endpoint.create": Rule("serve models of this team", MEMBERS),
    "endpoint.change": Rule("change another person's endpoint", LEADS, own=MEMBERS),
    "audit.view": Rule("see the audit log of this team", VIEWERS),
    "cluster.view": Rule("see the cluster", everyone=True),
    "node.view": Rule("see the nodes", everyone=True),
    "node.operate": Rule("drain, resume or revoke nodes"),
    "platform.manage": Rule("manage users, teams and the platform"),
}


@dataclass(frozen=True, slots=True)
class Actor:
    """The person or program that acts. An API token narrows it to one team, unless it has the scope admin."""

    username: str
    roles: Mapping[str, Role] = field(default_factory=dict)  # team → role
    is_admin: bool = False
    token_team: str | None = None
    by_token: bool = False

    @property
    def name(self) -> str:
        """Returns the actor as events name it."""
        return f"user:{self.username}" if self.username else "system"

    @property
    def teams(self) -> tuple[str, ...]:
        return tuple(sorted(self.roles))

    @property
    def sees(self) -> list[str] | None:
        """The teams to filter a list by; None for an admin, who sees every team."""
        return None if self.is_admin else list(self.teams)


SYSTEM = Actor("", is_admin=True)  # the platform itself: set-up, the demo, operators' commands


def may(actor: Actor, action: str, team: str = "", owner: str | None = None) -> bool:
    """Whether the actor may do this in this team; `owner` is the username of the person whose thing it is."""
    rule = RULES[action]
    if actor.is_admin or rule.everyone:
        return True
    role = actor.roles.get(team)
    return role in rule.roles or (role in rule.own and owner == actor.username)


def require(actor: Actor, action: str, team: str = "", owner: str | None = None, *, what: str = "") -> None:
    """Raises not_found for outsiders, who must not learn that the thing exists, and not_allowed for insiders.

    `what` names the thing in the sentence for outsiders: "job job-…"; without it, the team is named.
    """
    if may(actor, action, team, owner):
        return
    if team and team not in actor.roles:
        raise TrainmasterError("not_found", what=what or f"team {team}")
    whom = f"a lead of {team}" if RULES[action].roles else "a platform admin"
    raise TrainmasterError("not_allowed", what=RULES[action].words, whom=whom)


def may_prioritise(actor: Actor, team: str, priority: int) -> bool:
    """Whether the actor may give jobs of this team so urgent a priority."""
    return _too_urgent(actor, team, priority) is None


def require_priority(actor: Actor, team: str, priority: int) -> None:
    """Raises priority_too_urgent where the actor may not give jobs of this team this priority."""
    refused = _too_urgent(actor, team, priority)
    if refused is not None:
        raise TrainmasterError(refused.code, **asdict(refused))


def _too_urgent(actor: Actor, team: str, priority: int) -> urgency.TooUrgent | None:
    lead = actor.roles.get(team) == Role.LEAD
    rank = urgency.Rank.ADMIN if actor.is_admin else urgency.Rank.LEAD if lead else urgency.Rank.MEMBER
    limits = urgency.UrgencyLimits(settings.PRIORITY_OF_MEMBERS, settings.PRIORITY_OF_LEADS)
    return urgency.admit(priority, rank, team, limits)
