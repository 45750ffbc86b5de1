"""Datasets over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.datasets import services


class NewSnapshot(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=60)
    manifest = serializers.CharField(max_length=40)
    purpose = serializers.CharField(max_length=40)


class Snapshots(APIView):
    @extend_schema(
        request=NewSnapshot,
        responses={
            201: inline_serializer(
                "Snapshot",
                {
                    "id": serializers.CharField(),
                    "name": serializers.CharField(),
                    "version": serializers.IntegerField(),
                },
            )
        },
    )
    def post(self, request: Request, name: str) -> Response:
        """Register the next snapshot of a dataset."""
        wanted = NewSnapshot(data=request.data)
        wanted.is_valid(raise_exception=True)
        data = wanted.validated_data
        snapshot = services.add_snapshot(
            actor_of(request), data["team"], name, data["manifest"], data["purpose"]
        )
        return Response({"id": snapshot.id, "name": snapshot.name, "version": snapshot.version}, status=201)
