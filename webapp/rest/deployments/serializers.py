"""Deployments and their rollouts as REST takes and shows them."""

from collections import Counter
from typing import Any

from django.db.models import Count
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from platform_core.distribution.rollouts.canaries import (
    DEFAULT_CHECK_SECONDS,
    DEFAULT_COMMAND_SECONDS,
    LONGEST_COMMAND_SECONDS,
    LONGEST_HOLD_MS,
    MOST_FAILURES,
)
from platform_core.distribution.rollouts.checks import awaits_promotion, next_check_ms
from platform_core.distribution.rollouts.rollout import hold_ends_ms
from platform_core.distribution.rollouts.states import MemberState
from webapp.deployments import queries
from webapp.deployments.delivery.planning import STRATEGIES
from webapp.deployments.mapping import estimate_value
from webapp.deployments.models import Deployment
from webapp.rest.enums import DeploymentState, RolloutState
from webapp.rollouts import queries as rollout_queries
from webapp.rollouts.mapping import rollout_value
from webapp.rollouts.models import Rollout
from webapp.rollouts.values import RolloutWish


class RolloutIn(serializers.Serializer[Any]):
    """How the nodes switch to the version. Without it they only receive its files."""

    activate = serializers.BooleanField(required=False, default=True, help_text="false: only send the files.")
    canary = serializers.CharField(
        max_length=20,
        required=False,
        default="",
        allow_blank=True,
        help_text="How many nodes switch first, such as 3 or 10%.",
    )
    hold_seconds = serializers.IntegerField(
        required=False, default=None, allow_null=True, min_value=0, max_value=LONGEST_HOLD_MS // 1000,
        help_text="How long to watch the canaries before the rollout goes on; null: until it is promoted.",
    )  # fmt: skip
    health_check = serializers.CharField(
        max_length=100, required=False, default="", allow_blank=True,
        help_text="Command in the hooks folder of the canaries; they must pass it.",
    )  # fmt: skip
    check_every_seconds = serializers.IntegerField(
        required=False, default=DEFAULT_CHECK_SECONDS, min_value=0, max_value=LONGEST_HOLD_MS // 1000,
        help_text="Interval of the health check during the hold; 0: only at its start and its end.",
    )  # fmt: skip
    roll_back_after = serializers.IntegerField(
        required=False, default=0, min_value=0, max_value=MOST_FAILURES,
        help_text="Roll back all nodes after this many failed checks of a canary in a row; "
        "0: stop the rollout at the first failure.",
    )  # fmt: skip
    hook = serializers.CharField(
        max_length=100,
        required=False,
        default="",
        allow_blank=True,
        help_text="Command in the hooks folder of a node, run after its switch.",
    )
    wait_for_all = serializers.BooleanField(
        required=False, default=False, help_text="Switch no node before all nodes hold the version."
    )
    command_seconds = serializers.IntegerField(
        required=False,
        default=DEFAULT_COMMAND_SECONDS,
        min_value=1,
        max_value=LONGEST_COMMAND_SECONDS,
        help_text="Time limit of hook and health check.",
    )


class CheckOut(serializers.Serializer[Any]):
    node = serializers.CharField()
    exit_code = serializers.IntegerField(allow_null=True, help_text="null: the node did not answer in time.")
    output = serializers.CharField()
    failures = serializers.IntegerField(help_text="Failed checks in a row.")


class RolloutOut(serializers.Serializer[Any]):
    state = serializers.ChoiceField(choices=RolloutState)
    reason = serializers.CharField(help_text="Why it failed or was rolled back.")
    replaced_by = serializers.IntegerField(
        allow_null=True, help_text="Version that was activated later; null: none."
    )
    nodes = serializers.IntegerField()
    nodes_active = serializers.IntegerField(help_text="Nodes that run the version.")
    nodes_failed = serializers.IntegerField(
        help_text="Nodes whose hook failed; they run the previous version."
    )
    nodes_going_back = serializers.IntegerField(help_text="Nodes that still switch back.")
    nodes_away = serializers.IntegerField(help_text="Lost nodes; they switch back when they reconnect.")
    awaits_promotion = serializers.BooleanField(
        help_text="The canaries run the version and the rollout waits to be promoted."
    )
    canaries = serializers.ListField(child=serializers.CharField(), help_text="Hostnames.")
    hold_ends_ms = serializers.IntegerField(allow_null=True)
    check_round = serializers.IntegerField(help_text="How often the canaries were checked.")
    next_check_ms = serializers.IntegerField(allow_null=True)
    checks = CheckOut(many=True, help_text="The newest check of each canary.")


def rollout_wish(data: dict[str, Any] | None) -> RolloutWish | None:
    if data is None:
        return None
    fields = dict(data)
    return RolloutWish(**fields) if fields.pop("activate") else None


def rollout_out(row: Deployment) -> dict[str, Any] | None:
    rollout = Rollout.objects.filter(deployment=row).first()
    if rollout is None:
        return None
    states = Counter(dict(rollout.members.order_by().values_list("state").annotate(Count("id"))))
    away = rollout.members.filter(state=MemberState.RETURNING, node__state="lost").count()
    canaries = list(rollout.members.filter(canary=True).select_related("node").order_by("position"))
    value = rollout_value(rollout, canaries)  # for what concerns them alone
    return RolloutOut(
        {
            "state": rollout.state,
            "reason": rollout.reason,
            "replaced_by": rollout_queries.replaced_by(rollout),
            "nodes": states.total(),
            "nodes_active": states[MemberState.ACTIVE],
            "nodes_failed": states[MemberState.FAILED],
            "nodes_going_back": states[MemberState.RETURNING] - away,
            "nodes_away": away,
            "awaits_promotion": awaits_promotion(value),
            "canaries": [member.node.hostname for member in canaries],
            "hold_ends_ms": hold_ends_ms(value),
            "check_round": rollout.round,
            "next_check_ms": next_check_ms(value),
            "checks": [
                {
                    "node": m.node.hostname,
                    "exit_code": m.check_exit_code,
                    "output": m.check_output,
                    "failures": m.check_failures,
                }
                for m in canaries
                if m.check_round is not None
            ],
        }
    ).data


class NewDeployment(serializers.Serializer[Any]):
    model_id = serializers.CharField(max_length=200, help_text="team/name")
    version = serializers.IntegerField(min_value=1)
    source_url = serializers.CharField(max_length=2000, required=False, default="", allow_blank=True)
    target_workers = serializers.ListField(
        child=serializers.CharField(max_length=120),
        required=False,
        default=list,
        help_text="Ids or hostnames; empty: all ready nodes.",
    )
    strategy = serializers.ChoiceField(
        choices=STRATEGIES, required=False, default="auto",
        help_text="How the files travel between nodes. auto: mesh, unless another is over 10 % and 1 s faster.",
    )  # fmt: skip
    preheat = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Only fetch and verify; evicted first when a node needs disk space.",
    )
    pin = serializers.BooleanField(required=False, default=False, help_text="Never evict it from a node.")
    priority = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=100,
        help_text="Weight among deployments that share a node's link; 10 by default.",
    )
    rate_cap = serializers.IntegerField(
        required=False,
        default=0,
        min_value=0,
        help_text="Bytes per second in, and out, at each node; 0: no cap.",
    )
    rollout = RolloutIn(required=False, default=None, allow_null=True)


class Change(serializers.Serializer[Any]):
    """A field that is left out stays as it is."""

    pin = serializers.BooleanField(required=False, help_text="true: never evict it from a node.")
    priority = serializers.IntegerField(required=False, min_value=1, max_value=100)
    rate_cap = serializers.IntegerField(
        required=False, min_value=0, help_text="Bytes per second in, and out, at each node; 0: no cap."
    )


class EstimateOut(serializers.Serializer[Any]):
    strategy = serializers.CharField()
    time_seconds = serializers.SerializerMethodField()
    ratio = serializers.FloatField(help_text="Slowdown against the theoretical minimum; 1 is the minimum.")
    store_copies = serializers.IntegerField(help_text="Copies read from the store.")
    cross_rack_copies = serializers.IntegerField(help_text="Copies sent between racks.")
    most_sent_copies = serializers.IntegerField(help_text="Copies sent by the busiest node.")
    most_uplink_copies = serializers.IntegerField(
        help_text="Copies over the uplink of the busiest rack one way, those from the store included."
    )

    def get_time_seconds(self, estimate: Any) -> float:
        return float(estimate.time_ms) / 1000


class DeploymentOut(serializers.Serializer[Deployment]):
    id = serializers.CharField()
    model = serializers.CharField(source="model_version.model.__str__")
    version = serializers.IntegerField(source="model_version.version")
    status = serializers.SerializerMethodField(
        help_text="evicted: it was complete, and no node has it any more."
    )
    estimated_time_seconds = serializers.SerializerMethodField(help_text="The likely time.")
    estimated_low_seconds = serializers.SerializerMethodField(
        help_text="Unlikely to be less; null: not known."
    )
    estimated_high_seconds = serializers.SerializerMethodField(
        help_text="Unlikely to be more; null: not known."
    )
    estimate_basis = serializers.CharField(help_text="Where the rates were from.")
    progress = serializers.SerializerMethodField(help_text="0 to 1.")
    workers = serializers.SerializerMethodField()
    workers_complete = serializers.SerializerMethodField()
    workers_failed = serializers.SerializerMethodField()
    workers_evicted = serializers.SerializerMethodField(
        help_text="Workers that were complete and evicted it since."
    )
    strategy = serializers.CharField(help_text="Strategy in use.")
    strategies = serializers.SerializerMethodField(
        help_text="Predicted time of each strategy, fastest first."
    )
    preheat = serializers.BooleanField()
    pinned = serializers.BooleanField()
    priority = serializers.IntegerField()
    rate_cap = serializers.IntegerField(help_text="Bytes per second in, and out, at each node; 0: no cap.")
    rollout = serializers.SerializerMethodField(help_text="null: it only sends the files.")
    reason = serializers.SerializerMethodField(help_text="Why it failed, was cancelled or evicted.")
    created_ms = serializers.IntegerField()
    started_ms = serializers.IntegerField(allow_null=True)
    finished_ms = serializers.IntegerField(allow_null=True)

    @extend_schema_field(RolloutOut(allow_null=True))
    def get_rollout(self, row: Deployment) -> dict[str, Any] | None:
        return rollout_out(row)

    @extend_schema_field(EstimateOut(many=True))
    def get_strategies(self, row: Deployment) -> Any:
        return EstimateOut([estimate_value(estimate) for estimate in row.estimates], many=True).data

    def get_estimated_time_seconds(self, row: Deployment) -> float:
        return row.estimated_ms / 1000

    def get_estimated_low_seconds(self, row: Deployment) -> float | None:
        return None if row.estimated_low_ms is None else row.estimated_low_ms / 1000

    def get_estimated_high_seconds(self, row: Deployment) -> float | None:
        return None if row.estimated_high_ms is None else row.estimated_high_ms / 1000

    def _progress(self, row: Deployment) -> Any:
        if not hasattr(row, "_progress"):
            row._progress = queries.progress_of(row)  # type: ignore[attr-defined]
        return row._progress  # type: ignore[attr-defined]

    @extend_schema_field(serializers.ChoiceField(choices=DeploymentState))
    def get_status(self, row: Deployment) -> str:
        return queries.shown_state(row, self._progress(row))

    def get_reason(self, row: Deployment) -> str:
        return queries.reason(row, self._progress(row))

    def get_progress(self, row: Deployment) -> float:
        progress = self._progress(row)
        return float(round(progress.bytes_done / progress.bytes_total, 4)) if progress.bytes_total else 1.0

    def get_workers(self, row: Deployment) -> int:
        return int(self._progress(row).workers)

    def get_workers_complete(self, row: Deployment) -> int:
        return int(self._progress(row).workers_complete)

    def get_workers_failed(self, row: Deployment) -> int:
        return int(self._progress(row).workers_failed)

    def get_workers_evicted(self, row: Deployment) -> int:
        return int(self._progress(row).workers_evicted)


class OneDeploymentOut(DeploymentOut):
    bytes_done = serializers.SerializerMethodField(help_text="Sum over all nodes.")
    bytes_total = serializers.SerializerMethodField()
    rate = serializers.SerializerMethodField(help_text="Bytes per second into all nodes together.")

    def get_bytes_done(self, row: Deployment) -> int:
        return int(self._progress(row).bytes_done)

    def get_bytes_total(self, row: Deployment) -> int:
        return int(self._progress(row).bytes_total)

    def get_rate(self, row: Deployment) -> int:
        return queries.rate_in(row)
