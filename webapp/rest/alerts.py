"""Alerts over REST: list, read, acknowledge; silences, rules with their preview, and channels."""

from typing import Any

from django.conf import settings
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.alerting.expression import text_of
from platform_core.alerting.machine import AlertState
from platform_core.errors import TrainmasterError
from platform_core.units import SECOND_MS
from webapp.accounts.permissions import may
from webapp.accounts.queries import actor_of
from webapp.alerts import queries, services
from webapp.alerts.models import Alert
from webapp.base.identity import now_ms
from webapp.rest.bodies import sent
from webapp.rest.enums import AlertSeverity, ChannelKind
from webapp.rest.openapi import listed

MOST_LISTED = 200


class AlertOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    rule = serializers.CharField()
    title = serializers.CharField()
    severity = serializers.CharField()
    subject = serializers.CharField(help_text="Id of a job, node or team; empty: the cluster.")
    name = serializers.CharField()
    team = serializers.CharField(help_text="Empty: of the cluster.")
    sentence = serializers.CharField(help_text="What it means, with the newest numbers.")
    remedy = serializers.CharField()
    condition = serializers.CharField()
    state = serializers.CharField(help_text="pending, firing, no_data or resolved.")
    value = serializers.FloatField()
    worst = serializers.FloatField()
    since_ms = serializers.IntegerField()
    fired_ms = serializers.IntegerField(allow_null=True)
    acknowledged_by = serializers.CharField()
    note = serializers.CharField()
    url = serializers.SerializerMethodField()

    def get_url(self, alert: Alert) -> str:
        return f"{settings.PUBLIC_URL}{reverse('alerts:detail', args=[alert.id])}"


class NoticeOut(serializers.Serializer[Any]):
    channel = serializers.CharField(source="channel.name")
    title = serializers.CharField()
    made_ms = serializers.IntegerField()
    sent_ms = serializers.IntegerField(allow_null=True)
    tries = serializers.IntegerField()
    error = serializers.CharField()


class OneAlertOut(AlertOut):
    notices = serializers.SerializerMethodField(help_text="Who was told when.")

    @extend_schema_field(NoticeOut(many=True))
    def get_notices(self, alert: Alert) -> Any:
        return NoticeOut(queries.notices(alert), many=True).data


class Acknowledgement(serializers.Serializer[Any]):
    note = serializers.CharField(max_length=services.NOTE_LENGTH, default="", allow_blank=True)


class SilenceOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    team = serializers.CharField(source="team_id", allow_null=True)
    rule = serializers.CharField()
    subject = serializers.CharField()
    from_ms = serializers.IntegerField()
    until_ms = serializers.IntegerField()
    reason = serializers.CharField()
    made_by = serializers.CharField()


class NewSilence(serializers.Serializer[Any]):
    team = serializers.CharField(
        max_length=60, default="", allow_blank=True, help_text="Empty: the cluster and all teams, for admins."
    )
    rule = serializers.CharField(max_length=60, default="", allow_blank=True, help_text="Empty: all.")
    subject = serializers.CharField(max_length=140, default="", allow_blank=True, help_text="Empty: all.")
    seconds = serializers.IntegerField(min_value=60, max_value=services.LONGEST_SILENCE_MS // SECOND_MS)
    reason = serializers.CharField(max_length=services.REASON_LENGTH)


class RuleOut(serializers.Serializer[Any]):
    code = serializers.CharField(source="rule.code")
    title = serializers.CharField(source="rule.title")
    condition = serializers.SerializerMethodField()
    severity = serializers.CharField(source="rule.severity")
    team = serializers.CharField(source="rule.team", help_text="Empty: of the platform.")
    remedy = serializers.CharField(source="rule.remedy")
    enabled = serializers.BooleanField()
    built_in = serializers.BooleanField()

    def get_condition(self, entry: Any) -> str:
        return text_of(entry.rule.condition)


class RuleChange(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=60, default="", allow_blank=True)
    title = serializers.CharField(max_length=services.TITLE_LENGTH)
    condition = serializers.CharField(max_length=200, help_text="job.utilisation < 50 for 30m clear 60")
    severity = serializers.ChoiceField(choices=AlertSeverity)
    remedy = serializers.CharField(max_length=services.REMEDY_LENGTH, default="", allow_blank=True)
    enabled = serializers.BooleanField(default=True)


class FiringOut(serializers.Serializer[Any]):
    subject = serializers.CharField()
    fired_ms = serializers.IntegerField()
    resolved_ms = serializers.IntegerField(allow_null=True)
    worst = serializers.FloatField()


class ChannelOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    team = serializers.CharField(source="team_id", allow_null=True)
    name = serializers.CharField()
    kind = serializers.CharField()
    shown = serializers.CharField(help_text="What of the address is no secret.")
    least = serializers.CharField()
    every_team = serializers.BooleanField()


class NewChannel(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=60, default="", allow_blank=True)
    name = serializers.CharField(max_length=services.NAME_LENGTH)
    kind = serializers.ChoiceField(choices=ChannelKind)
    address = serializers.CharField(max_length=2000, default="", allow_blank=True)
    key = serializers.CharField(max_length=200, default="", allow_blank=True)
    least = serializers.ChoiceField(choices=AlertSeverity, default="warning")
    every_team = serializers.BooleanField(default=False)


class Alerts(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("state", description="open (default), all, firing, no_data or resolved."),
            OpenApiParameter("team", description="Only of this team; - is the cluster."),
            OpenApiParameter("severity", description="warning or critical."),
            OpenApiParameter("rule", description="Code of a rule."),
        ],
        responses=listed(AlertOut),
    )
    def get(self, request: Request) -> Response:
        """List the 200 newest alerts of your teams and the cluster."""
        query = request.query_params
        state = query.get("state") or "open"
        if state not in ("open", "all", *AlertState):
            raise TrainmasterError(
                "request_invalid",
                what=f"state {state[:40]!r}",
                why="it must be open, all or a state of an alert",
            )
        rows = queries.filtered(
            queries.visible(actor_of(request)), state=state, team=query.get("team", ""),
            severity=query.get("severity", ""), rule=query.get("rule", ""),
        )  # fmt: skip
        return Response({"results": AlertOut(rows[:MOST_LISTED], many=True).data})


class OneAlert(APIView):
    @extend_schema(responses={200: OneAlertOut})
    def get(self, request: Request, alert_id: str) -> Response:
        """Read an alert, and who was told of it when."""
        return Response(OneAlertOut(queries.alert_for(actor_of(request), alert_id)).data)


class AlertAcknowledge(APIView):
    @extend_schema(request=Acknowledgement, responses={200: OneAlertOut})
    def post(self, request: Request, alert_id: str) -> Response:
        """Acknowledge an alert: nobody is told of it again until it is over."""
        body = sent(Acknowledgement, request)
        return Response(OneAlertOut(services.acknowledge(actor_of(request), alert_id, body["note"])).data)


class Silences(APIView):
    @extend_schema(responses=listed(SilenceOut))
    def get(self, request: Request) -> Response:
        """List the silences that hold now."""
        rows = queries.silences(actor_of(request), now_ms())
        return Response({"results": SilenceOut(rows, many=True).data})

    @extend_schema(request=NewSilence, responses={201: SilenceOut})
    def post(self, request: Request) -> Response:
        """Silence alerts for a time."""
        body = sent(NewSilence, request)
        seconds = body.pop("seconds")
        row = services.silence(actor_of(request), body.pop("team"), lasts_ms=seconds * SECOND_MS, **body)
        return Response(SilenceOut(row).data, status=201)


class OneSilence(APIView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, silence_id: int) -> Response:
        """End a silence now."""
        services.end_silence(actor_of(request), silence_id)
        return Response(status=204)


class Rules(APIView):
    @extend_schema(responses=listed(RuleOut))
    def get(self, request: Request) -> Response:
        """List the alert rules of the platform and of your teams."""
        actor = actor_of(request)
        entries = [
            entry
            for entry in queries.catalogue.entries()
            if not entry.rule.team or may(actor, "alert.view", entry.rule.team)
        ]
        return Response({"results": RuleOut(entries, many=True).data})


class OneRule(APIView):
    @extend_schema(request=RuleChange, responses={200: RuleOut})
    def put(self, request: Request, code: str) -> Response:
        """Write an alert rule, or change the condition of a built-in one."""
        body = sent(RuleChange, request)
        services.save_rule(actor_of(request), body.pop("team"), code, **body)
        return Response(RuleOut(queries.entry(code)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, code: str) -> Response:
        """Delete an alert rule, or undo the changes of a built-in one."""
        services.delete_rule(actor_of(request), code)
        return Response(status=204)


class RulePreview(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("condition", required=True, description="job.utilisation < 50 for 30m clear 60"),
            OpenApiParameter("team", description="Only of this team."),
        ],
        responses=listed(FiringOut),
    )
    def get(self, request: Request) -> Response:
        """List when a condition would have fired within the last week."""
        actor, team = actor_of(request), request.query_params.get("team", "")
        if team and not may(actor, "alert.view", team):
            raise TrainmasterError("not_found", what=f"team {team}")
        rule = queries.rule_to_try(request.query_params.get("condition", ""))
        return Response(
            {"results": FiringOut(queries.preview(actor, rule, team, now_ms())[:500], many=True).data}
        )


class Channels(APIView):
    @extend_schema(responses=listed(ChannelOut))
    def get(self, request: Request) -> Response:
        """List the alert channels of your teams; admins also see those of the platform."""
        return Response({"results": ChannelOut(queries.channels(actor_of(request)), many=True).data})

    @extend_schema(request=NewChannel, responses={201: ChannelOut})
    def post(self, request: Request) -> Response:
        """Add an alert channel; its address and key are encrypted and never shown again."""
        body = sent(NewChannel, request)
        names = [body.pop(name) for name in ("team", "name", "kind", "address")]
        return Response(ChannelOut(services.add_channel(actor_of(request), *names, **body)).data, status=201)


class OneChannel(APIView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, channel_id: int) -> Response:
        """Delete an alert channel."""
        services.delete_channel(actor_of(request), channel_id)
        return Response(status=204)


class ChannelTest(APIView):
    @extend_schema(request=None, responses={202: NoticeOut})
    def post(self, request: Request, channel_id: int) -> Response:
        """Send a test to an alert channel."""
        return Response(NoticeOut(services.send_test(actor_of(request), channel_id)).data, status=202)
