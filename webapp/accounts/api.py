"""Who am I, over REST."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of


class Me(serializers.Serializer):
    username = serializers.CharField()
    admin = serializers.BooleanField(
        help_text="a platform admin; with a token only if it has the scope admin"
    )
    teams = serializers.DictField(child=serializers.CharField(), help_text="team → role")
    token_team = serializers.CharField(allow_null=True, help_text="the team that the token used is for")


class MeView(APIView):
    @extend_schema(responses=Me)
    def get(self, request: Request) -> Response:
        """The person, or the token, that asks."""
        actor = actor_of(request)
        roles = {team: str(role) for team, role in sorted(actor.roles.items())}
        body = {
            "username": actor.username,
            "admin": actor.is_admin,
            "teams": roles,
            "token_team": actor.token_team,
        }
        return Response(Me(body).data)
