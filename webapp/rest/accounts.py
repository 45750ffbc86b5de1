"""Who asks, teams and departments over REST."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.accounts import queries, services
from webapp.accounts.models import ApiToken, Role
from webapp.accounts.permissions import Actor, require
from webapp.accounts.queries import DepartmentView, actor_of
from webapp.rest.bodies import sent
from webapp.rest.openapi import listed


class Me(serializers.Serializer):
    username = serializers.CharField()
    admin = serializers.BooleanField(
        help_text="May act as a platform admin; a token needs the scope admin for it."
    )
    teams = serializers.DictField(child=serializers.CharField(), help_text="Role by team.")
    token_name = serializers.CharField(allow_null=True, help_text="Of the API token used; null without one.")
    token_team = serializers.CharField(
        allow_null=True,
        help_text="The one team that the token acts for; null: it has the scope admin, or no token.",
    )
    token_expires_ms = serializers.IntegerField(allow_null=True)


class MeView(APIView):
    @extend_schema(responses=Me)
    def get(self, request: Request) -> Response:
        """Tell who you are: user, teams with roles, and the API token used."""
        actor = actor_of(request)
        token = request.auth if isinstance(request.auth, ApiToken) else None
        body = {
            "username": actor.username,
            "admin": actor.is_admin,
            "teams": {team: str(role) for team, role in sorted(actor.roles.items())},
            "token_name": token and token.name,
            "token_team": actor.token_team,
            "token_expires_ms": token and token.expires_ms,
        }
        return Response(Me(body).data)


WEIGHT = "Fair-share weight among its siblings; 1 or more."


class TeamOut(serializers.Serializer):
    slug = serializers.CharField()
    name = serializers.CharField()
    weight = serializers.IntegerField(help_text=WEIGHT)
    department = serializers.CharField(allow_null=True, help_text="Slug; null: in no department.")


class TeamChange(serializers.Serializer):
    """A field that is left out stays as it is."""

    name = serializers.CharField(required=False)
    weight = serializers.IntegerField(required=False, help_text=WEIGHT)
    department = serializers.CharField(
        required=False, allow_null=True, help_text="Slug; null: in no department."
    )


class Teams(APIView):
    @extend_schema(responses=listed(TeamOut))
    def get(self, request: Request) -> Response:
        """List your teams; for platform admins all teams."""
        return Response({"results": TeamOut(queries.teams(actor_of(request).sees), many=True).data})


class OneTeam(APIView):
    @extend_schema(responses=TeamOut)
    def get(self, request: Request, slug: str) -> Response:
        """Read the name, department and fair-share weight of a team."""
        require(actor_of(request), "team.view", slug)
        return Response(TeamOut(queries.team(slug)).data)

    @extend_schema(request=TeamChange, responses=TeamOut)
    def patch(self, request: Request, slug: str) -> Response:
        """Change the name, weight or department of a team. For platform admins."""
        actor = actor_of(request)
        require(actor, "platform.manage")
        services.change_team(actor, slug, **sent(TeamChange, request))
        return Response(TeamOut(queries.team(slug)).data)


class MemberOut(serializers.Serializer):
    username = serializers.CharField()
    full_name = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)


class MemberIn(serializers.Serializer):
    role = serializers.ChoiceField(choices=Role.choices)


class Members(APIView):
    @extend_schema(responses=listed(MemberOut))
    def get(self, request: Request, slug: str) -> Response:
        """List the members of a team with their roles."""
        require(actor_of(request), "team.view", slug)
        return Response({"results": MemberOut(queries.members(queries.team(slug).slug), many=True).data})


class OneMember(APIView):
    @extend_schema(request=MemberIn, responses=MemberOut)
    def put(self, request: Request, slug: str, username: str) -> Response:
        """Add a member to a team, or change their role. For leads. The last lead keeps the role."""
        actor = actor_of(request)
        require(actor, "team.manage_members", slug)
        services.set_role(actor, slug, username, Role(sent(MemberIn, request)["role"]))
        (member,) = (member for member in queries.members(slug) if member.username == username)
        return Response(MemberOut(member).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str, username: str) -> Response:
        """Remove a member from a team; their tokens for it are revoked, their jobs stay. For leads."""
        services.remove_member(actor_of(request), slug, username)
        return Response(status=204)


class DepartmentOut(serializers.Serializer):
    slug = serializers.CharField()
    name = serializers.CharField()
    weight = serializers.IntegerField(help_text=WEIGHT)
    parent = serializers.CharField(allow_null=True, help_text="Slug; null: at the top.")  # type: ignore[assignment]
    teams = serializers.ListField(
        child=serializers.CharField(), help_text="Slugs of the teams directly in it that you may see."
    )


class DepartmentIn(serializers.Serializer):
    slug = serializers.CharField()
    name = serializers.CharField()
    weight = serializers.IntegerField(required=False, help_text=f"{WEIGHT} 1 by default.")
    parent = serializers.CharField(
        required=False, allow_null=True, help_text="Slug; null or left out: at the top."
    )  # type: ignore[assignment]


class DepartmentChange(serializers.Serializer):
    """A field that is left out stays as it is."""

    name = serializers.CharField(required=False)
    weight = serializers.IntegerField(required=False, help_text=WEIGHT)
    parent = serializers.CharField(required=False, allow_null=True, help_text="Slug; null: at the top.")  # type: ignore[assignment]


class Departments(APIView):
    @extend_schema(responses=listed(DepartmentOut))
    def get(self, request: Request) -> Response:
        """List the departments above your teams; for platform admins all departments."""
        actor = actor_of(request)
        return Response({"results": _departments(actor, queries.departments_seen_by(actor).values())})

    @extend_schema(request=DepartmentIn, responses={201: DepartmentOut})
    def post(self, request: Request) -> Response:
        """Create a department. Move teams into it with PATCH on the team. For platform admins."""
        actor = actor_of(request)
        require(actor, "platform.manage")
        row = services.create_department(actor, **sent(DepartmentIn, request))
        return Response(_department(actor, row.slug), status=201)


class OneDepartment(APIView):
    @extend_schema(responses=DepartmentOut)
    def get(self, request: Request, slug: str) -> Response:
        """Read a department above one of your teams; for platform admins any."""
        return Response(_department(actor_of(request), slug))

    @extend_schema(request=DepartmentChange, responses=DepartmentOut)
    def patch(self, request: Request, slug: str) -> Response:
        """Change the name, weight or parent of a department. For platform admins."""
        actor = actor_of(request)
        require(actor, "platform.manage")
        services.change_department(actor, slug, **sent(DepartmentChange, request))
        return Response(_department(actor, slug))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """Delete an empty department. For platform admins."""
        services.delete_department(actor_of(request), slug)
        return Response(status=204)


def _department(actor: Actor, slug: str) -> Any:
    seen = queries.departments_seen_by(actor)
    if slug not in seen:
        raise TrainmasterError("not_found", what=f"department {slug}")
    (body,) = _departments(actor, [seen[slug]])
    return body


def _departments(actor: Actor, views: Iterable[DepartmentView]) -> Any:
    teams = defaultdict(list)
    for team in queries.teams(actor.sees):
        teams[team.department].append(team.slug)
    bodies = [
        {
            "slug": view.slug,
            "name": view.name,
            "weight": view.weight,
            "parent": view.parent,
            "teams": sorted(teams[view.slug]),
        }
        for view in views
    ]
    return DepartmentOut(bodies, many=True).data
