"""Endpoints over REST: create, read, scale, change the version with a canary, promote, roll back and stop."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.serving.canary import CanaryPolicy, Traffic
from platform_core.serving.quality import Quality
from platform_core.units import SECOND_MS
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.rest.enums import EndpointState, ReplicaState
from webapp.rest.openapi import listed
from webapp.serving import collecting, queries, services, watching
from webapp.serving.models import Endpoint

MOST_OTHERWISE = 50
ENDPOINT_SPEC = {"$ref": "#/components/schemas/EndpointSpec"}


@extend_schema_field(ENDPOINT_SPEC)
class SpecOut(serializers.JSONField):
    """What was asked for."""


class ReplicaOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    version = serializers.IntegerField(source="model_version.version")
    state = serializers.ChoiceField(choices=ReplicaState)
    since_ms = serializers.IntegerField()
    job = serializers.CharField(source="job_id")


class EndpointOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    team = serializers.CharField(source="team_id")
    name = serializers.CharField()
    user = serializers.CharField(source="user.username")
    model = serializers.CharField(source="stable.model.name")
    version = serializers.IntegerField(source="stable.version")
    canary = serializers.SerializerMethodField(help_text="Version under watch; null without one.")
    shadow = serializers.SerializerMethodField(help_text="Whether that version only gets copies of requests.")
    verdict = serializers.CharField(help_text="What was last said of a canary.")
    state = serializers.ChoiceField(choices=EndpointState)
    reason = serializers.CharField(help_text="Why it is not as wanted.")
    wanted = serializers.IntegerField(help_text="Replicas, by the plan of scaling.")
    scaling_reason = serializers.CharField()
    address = serializers.SerializerMethodField()
    replicas = serializers.SerializerMethodField()
    created_ms = serializers.IntegerField()
    spec = SpecOut()

    def get_canary(self, row: Endpoint) -> int | None:
        return row.canary.version if row.canary else None

    def get_shadow(self, row: Endpoint) -> bool:
        return row.canary_id is not None and queries.canary_policy(row).shadow

    def get_address(self, row: Endpoint) -> str:
        return f"{settings.ROUTER_URL}/endpoints/{row.team_id}/{row.name}"

    @extend_schema_field(ReplicaOut(many=True))
    def get_replicas(self, row: Endpoint) -> Any:
        return ReplicaOut(queries.replicas(row.id), many=True).data


class DriftFinding(serializers.Serializer[Any]):
    feature = serializers.CharField()
    slice = serializers.CharField(default="", help_text='Such as "input.language = de"; empty: all samples.')
    against = serializers.CharField(
        default="first", help_text='The reference: "training", "first" or "last week".'
    )
    test = serializers.CharField()
    value = serializers.FloatField(help_text="Distance of the newest samples from the reference.")
    limit = serializers.FloatField(help_text="A greater distance is hardly chance.")
    reference = serializers.IntegerField(help_text="Values of the reference.")
    window = serializers.IntegerField(help_text="Values of the newest samples.")
    moved = serializers.BooleanField()


class DriftOut(serializers.Serializer[Any]):
    sample_percent = serializers.IntegerField(help_text="0: nothing is sampled.")
    at_ms = serializers.IntegerField(allow_null=True, help_text="Of the last look; null before the first.")
    reference = serializers.IntegerField(help_text="The first samples of the version in use, at most 500.")
    references = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Samples of each; compared from 200 on, the first once there are 500.",
    )
    window = serializers.IntegerField(help_text="Its newest samples of a day, at most 500.")
    findings = DriftFinding(
        many=True, help_text="Those that moved most first; none before there are enough samples."
    )


class ScaleIn(serializers.Serializer[Any]):
    min_replicas = serializers.IntegerField(min_value=0, max_value=1_000)
    max_replicas = serializers.IntegerField(min_value=1, max_value=1_000)


class VersionIn(serializers.Serializer[Any]):
    version = serializers.IntegerField(min_value=1)
    share_percent = serializers.FloatField(
        min_value=0.01, max_value=100, default=10, help_text="Of the requests that the new version gets."
    )
    watch_seconds = serializers.IntegerField(min_value=0, max_value=604_800, default=60)
    min_requests = serializers.IntegerField(min_value=0, max_value=1_000_000_000, default=100)
    max_error_increase = serializers.FloatField(min_value=0, max_value=1, default=0.01)
    max_latency_ratio = serializers.FloatField(min_value=1, max_value=1_000, default=1.5)
    automatic = serializers.BooleanField(default=True, help_text="false: people promote it or roll it back.")
    shadow = serializers.BooleanField(
        default=False, help_text="The share is of copies of requests; no caller gets its answers."
    )
    min_agreement = serializers.FloatField(
        min_value=0, max_value=1, default=0, help_text="Share of a shadow's answers that must be alike."
    )
    max_accuracy_loss = serializers.FloatField(
        min_value=0, max_value=1, default=0.02, help_text="By labels that came since it began."
    )
    same_outputs = serializers.BooleanField(
        default=False, help_text="Outputs that are distributed otherwise roll it back."
    )

    def validate(self, attributes: dict[str, Any]) -> dict[str, Any]:
        if attributes["min_agreement"] and not attributes["shadow"]:
            why = "is for a shadow: a canary answers other requests than the version in use"
            raise serializers.ValidationError({"min_agreement": why})
        return attributes


class OfVersion(serializers.Serializer[Any]):
    """What one version answered since the trial began."""

    version = serializers.IntegerField()
    requests = serializers.IntegerField()
    failures = serializers.IntegerField()
    p50_ms = serializers.FloatField(allow_null=True)
    p99_ms = serializers.FloatField(allow_null=True)
    accuracy = serializers.FloatField(allow_null=True, help_text="By labels that came later; null without.")
    labelled = serializers.IntegerField()


class OtherwiseOut(serializers.Serializer[Any]):
    request = serializers.CharField(help_text="X-Request-Id of a sampled request.")
    at_ms = serializers.IntegerField()
    stable = serializers.DictField(help_text="Features of the answer of the version in use.")
    canary = serializers.DictField()


class CanaryOut(serializers.Serializer[Any]):
    shadow = serializers.BooleanField()
    share_percent = serializers.FloatField()
    automatic = serializers.BooleanField()
    verdict = serializers.CharField()
    began_ms = serializers.IntegerField()
    stable = OfVersion()
    canary = OfVersion()
    compared = serializers.IntegerField(help_text="Answers of a shadow beside those of the version in use.")
    alike = serializers.IntegerField()
    mean_difference = serializers.FloatField(allow_null=True, help_text="Of the numbers of these answers.")
    moved_outputs = serializers.ListField(
        child=serializers.CharField(), help_text="Outputs that the version under trial distributes otherwise."
    )
    answered_otherwise = OtherwiseOut(
        many=True, help_text="The newest sampled requests of which both differ."
    )


def _found(request: Request, team: str, name: str) -> Endpoint:
    """Raises not_found, also where the caller may not see it."""
    row = queries.find(team, name, actor_of(request).sees)
    if row is None:
        raise TrainmasterError("not_found", what=f"endpoint {name} in team {team}")
    return row


def _read(row: Endpoint, status: int = 200) -> Response:
    return Response(EndpointOut(queries.visible(None).get(id=row.id)).data, status=status)


class Endpoints(APIView):
    @extend_schema(responses=listed(EndpointOut))
    def get(self, request: Request) -> Response:
        """List the endpoints of your teams that are not stopped."""
        return Response({"results": EndpointOut(queries.living(actor_of(request).sees), many=True).data})

    @extend_schema(request={"application/json": ENDPOINT_SPEC}, responses={201: EndpointOut})
    def post(self, request: Request) -> Response:
        """Create an endpoint; its replicas start as soon as there are slots."""
        return _read(services.create(actor_of(request), request.data), 201)


class OneEndpoint(APIView):
    @extend_schema(responses={200: EndpointOut})
    def get(self, request: Request, team: str, name: str) -> Response:
        """Read an endpoint."""
        row = _found(request, team, name)
        return _read(row)

    @extend_schema(request=ScaleIn, responses={200: EndpointOut})
    def patch(self, request: Request, team: str, name: str) -> Response:
        """Change how many replicas it may have."""
        body = ScaleIn(data=request.data)
        body.is_valid(raise_exception=True)
        limits = body.validated_data
        return _read(
            services.scale(actor_of(request), team, name, limits["min_replicas"], limits["max_replicas"])
        )

    @extend_schema(responses={202: EndpointOut})
    def delete(self, request: Request, team: str, name: str) -> Response:
        """Stop an endpoint; its replicas answer what they have and end."""
        return _read(services.stop(actor_of(request), team, name), 202)


class Drift(APIView):
    @extend_schema(responses=DriftOut)
    def get(self, request: Request, team: str, name: str) -> Response:
        """Read whether an endpoint is asked or answers otherwise than in training, at first or in the last week."""
        row = _found(request, team, name)
        last = {"at_ms": None, "reference": 0, "references": {}, "window": 0, "findings": [], **row.drift}
        return Response(DriftOut({**last, "sample_percent": row.spec.get("sample_percent", 0)}).data)


class Version(APIView):
    @extend_schema(request=VersionIn, responses={200: EndpointOut})
    def put(self, request: Request, team: str, name: str) -> Response:
        """Begin a canary with another version of the model."""
        body = VersionIn(data=request.data)
        body.is_valid(raise_exception=True)
        asked = dict(body.validated_data)
        policy = CanaryPolicy(
            share=round(asked["share_percent"] * 100),
            watch_ms=asked["watch_seconds"] * SECOND_MS,
            min_requests=asked["min_requests"],
            max_error_increase=asked["max_error_increase"],
            max_latency_ratio=asked["max_latency_ratio"],
            automatic=asked["automatic"],
            shadow=asked["shadow"],
            min_agreement=asked["min_agreement"],
            max_accuracy_loss=asked["max_accuracy_loss"],
            same_outputs=asked["same_outputs"],
        )
        return _read(services.change_version(actor_of(request), team, name, asked["version"], policy))


class CollectionOut(serializers.Serializer[Any]):
    dataset = serializers.CharField()
    purposes = serializers.ListField(child=serializers.CharField(), help_text="None: nothing is collected.")
    days = serializers.IntegerField(help_text="How long a request is kept.")
    requests = serializers.IntegerField(help_text="That are kept.")
    size = serializers.IntegerField(help_text="Of these, in bytes.")
    fresh = serializers.IntegerField(help_text="Of these, that no version has yet.")
    first_ms = serializers.IntegerField(allow_null=True)
    last_ms = serializers.IntegerField(allow_null=True)
    version = serializers.IntegerField(allow_null=True, help_text="The newest that was made of them.")
    snapshot = serializers.CharField(allow_null=True)
    error = serializers.CharField(help_text="Why the last version could not be made.")


class Collection(APIView):
    @extend_schema(responses=CollectionOut)
    def get(self, request: Request, team: str, name: str) -> Response:
        """Read what is kept of the requests of an endpoint, as data."""
        row = _found(request, team, name)
        return _collection(row)

    @extend_schema(request=None, responses={201: CollectionOut})
    def post(self, request: Request, team: str, name: str) -> Response:
        """Make a version of the dataset of its requests now."""
        return _collection(services.publish_collected(actor_of(request), team, name), 201)


def _collection(row: Endpoint, status: int = 200) -> Response:
    kept, made = collecting.collected(row), row.collection
    answer = {
        "dataset": queries.collected_name(row), "purposes": row.spec.get("collect_for", []),
        "days": row.spec.get("collect_days", 30), "requests": kept.requests, "size": kept.size, "fresh": kept.fresh,
        "first_ms": kept.first_ms, "last_ms": kept.last_ms, "version": made.get("version"),
        "snapshot": made.get("snapshot"), "error": made.get("error", ""),
    }  # fmt: skip
    return Response(CollectionOut(answer).data, status=status)


class Canary(APIView):
    @extend_schema(responses=CanaryOut)
    def get(self, request: Request, team: str, name: str) -> Response:
        """Read what is known of the version under trial, beside the version in use."""
        row = _found(request, team, name)
        if row.canary is None:
            raise TrainmasterError("not_found", what=f"version under trial of endpoint {name}")
        policy = queries.canary_policy(row)
        seen = watching.watch(row, policy, now_ms(), outputs=True)
        canary = seen.canary
        return Response(
            CanaryOut({
                "shadow": policy.shadow, "share_percent": policy.share / 100, "automatic": policy.automatic,
                "verdict": row.verdict, "began_ms": seen.began_ms,
                "stable": _of_version(row.stable.version, seen.stable, seen.stable_quality),
                "canary": _of_version(row.canary.version, canary, seen.canary_quality),
                "compared": canary.compared, "alike": canary.alike,
                "mean_difference": canary.difference if canary.compared else None,
                "moved_outputs": seen.moved,
                "answered_otherwise": watching.answered_otherwise(row, MOST_OTHERWISE),
            }).data
        )  # fmt: skip


def _of_version(number: int, traffic: Traffic, quality: Quality) -> dict[str, Any]:
    return {
        "version": number, "requests": traffic.requests, "failures": traffic.errors, "p50_ms": traffic.p50_ms,
        "p99_ms": traffic.p99_ms, "accuracy": quality.accuracy, "labelled": quality.labelled,
    }  # fmt: skip


class Promote(APIView):
    @extend_schema(request=None, responses={200: EndpointOut})
    def post(self, request: Request, team: str, name: str) -> Response:
        """Let the canary take over."""
        return _read(services.promote(actor_of(request), team, name))


class RollBack(APIView):
    @extend_schema(request=None, responses={200: EndpointOut})
    def post(self, request: Request, team: str, name: str) -> Response:
        """End the canary; all requests go to the version before it at once."""
        return _read(services.roll_back(actor_of(request), team, name))
