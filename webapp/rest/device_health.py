"""Device health of nodes over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.cluster.device_health import BY_CODE, WHOLE_NODE, Consequence, Severity, Stage
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.nodes import device_health, queries, services
from webapp.nodes.models import DeviceFinding
from webapp.rest.openapi import listed

FINDINGS = 200


class FindingOut(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="Of the rule: docs/reference/device-health.md.")
    slot = serializers.IntegerField(allow_null=True, help_text="Null for the whole node.")
    stage = serializers.ChoiceField(choices=list(Stage))
    severity = serializers.ChoiceField(choices=list(Severity))
    consequence = serializers.ChoiceField(choices=list(Consequence))
    sentence = serializers.CharField()
    remedy = serializers.CharField()
    value = serializers.FloatField(help_text="The newest reading.")
    worst = serializers.FloatField()
    began_ms = serializers.IntegerField()
    closed_ms = serializers.IntegerField(allow_null=True)
    returned_by = serializers.CharField(help_text="The operator who returned it to service.")


_LISTED = listed(FindingOut)


class NodeHealth(APIView):
    @extend_schema(responses=_LISTED)
    def get(self, request: Request, node_id: str) -> Response:
        """List what was found wrong with the devices of a node (id or hostname), open findings first."""
        require(actor_of(request), "node.view")
        return _history(queries.id_of(node_id))


class ReturnIn(serializers.Serializer[Any]):
    slot = serializers.IntegerField(
        required=False, allow_null=True, default=None, min_value=0, help_text="Only this slot."
    )


class NodeReturn(APIView):
    @extend_schema(request=ReturnIn, responses=_LISTED)
    def post(self, request: Request, node_id: str) -> Response:
        """Return a node (id or hostname), or one slot of it, to service. For platform admins.

        Only new or worse faults take it out of service again.
        """
        actor = actor_of(request)
        require(actor, "node.operate")
        body = ReturnIn(data=request.data)
        body.is_valid(raise_exception=True)
        node = queries.id_of(node_id)
        services.return_to_service(actor, node, body.validated_data["slot"])
        return _history(node)


def _history(node_id: str) -> Response:
    rows = device_health.history(node_id, FINDINGS)
    return Response({"results": [_finding(row) for row in rows if row.code in BY_CODE]})


def _finding(row: DeviceFinding) -> Any:
    finding = device_health.finding_of(row)
    rule = finding.rule
    return FindingOut(
        {
            "code": row.code, "slot": None if row.slot == WHOLE_NODE else row.slot, "stage": row.stage,
            "severity": rule.severity, "consequence": rule.consequence, "sentence": rule.says(row.worst),
            "remedy": rule.remedy, "value": row.value, "worst": row.worst, "began_ms": row.began_ms,
            "closed_ms": row.closed_ms, "returned_by": row.returned_by,
        }
    ).data  # fmt: skip
