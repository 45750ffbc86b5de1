"""Who am I, teams and the departments above them, over REST."""

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
from webapp.accounts.models import Role
from webapp.accounts.permissions import Actor, require
from webapp.accounts.queries import DepartmentView, actor_of
from webapp.rest.bodies import sent
from webapp.rest.openapi import listed


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


WEIGHT = "1 or more: its share relative to what stands beside it"


class TeamOut(serializers.Serializer):
    slug = serializers.CharField()
    name = serializers.CharField()
    weight = serializers.IntegerField(help_text=WEIGHT)
    department = serializers.CharField(allow_null=True, help_text="the slug; null: in none")


class TeamChange(serializers.Serializer):
    """A field that is left out stays as it is."""

    name = serializers.CharField(required=False)
    weight = serializers.IntegerField(required=False, help_text=WEIGHT)
    department = serializers.CharField(required=False, allow_null=True, help_text="the slug; null: in none")


class Teams(APIView):
    @extend_schema(responses=listed(TeamOut))
    def get(self, request: Request) -> Response:
        """The own teams, or for platform admins all, by name."""
        return Response({"results": TeamOut(queries.teams(actor_of(request).sees), many=True).data})


class OneTeam(APIView):
    @extend_schema(responses=TeamOut)
    def get(self, request: Request, slug: str) -> Response:
        """What it is called, in which department it stands, and its weight there."""
        require(actor_of(request), "team.view", slug)
        return Response(TeamOut(queries.team(slug)).data)

    @extend_schema(request=TeamChange, responses=TeamOut)
    def patch(self, request: Request, slug: str) -> Response:
        """Rename or weigh it, or move it to another department, for platform admins."""
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
        """Who belongs to the team, and as what."""
        require(actor_of(request), "team.view", slug)
        return Response({"results": MemberOut(queries.members(queries.team(slug).slug), many=True).data})


class OneMember(APIView):
    @extend_schema(request=MemberIn, responses=MemberOut)
    def put(self, request: Request, slug: str, username: str) -> Response:
        """Bring a person into the team with this role, or give them another one, for its leads. Its last lead stays."""
        actor = actor_of(request)
        require(actor, "team.manage_members", slug)
        services.set_role(actor, slug, username, Role(sent(MemberIn, request)["role"]))
        (member,) = (one for one in queries.members(slug) if one.username == username)
        return Response(MemberOut(member).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str, username: str) -> Response:
        """Out of the team, for its leads. Their tokens for it end; what they made stays with it."""
        services.remove_member(actor_of(request), slug, username)
        return Response(status=204)


class DepartmentOut(serializers.Serializer):
    slug = serializers.CharField()
    name = serializers.CharField()
    weight = serializers.IntegerField(help_text=WEIGHT)
    parent = serializers.CharField(allow_null=True, help_text="the slug; null: at the top")  # type: ignore[assignment]
    teams = serializers.ListField(
        child=serializers.CharField(), help_text="those directly in it that you may see"
    )


class DepartmentIn(serializers.Serializer):
    slug = serializers.CharField()
    name = serializers.CharField()
    weight = serializers.IntegerField(required=False, help_text=f"{WEIGHT}; 1 if left out")
    parent = serializers.CharField(required=False, allow_null=True, help_text="null or left out: at the top")  # type: ignore[assignment]


class DepartmentChange(serializers.Serializer):
    """A field that is left out stays as it is."""

    name = serializers.CharField(required=False)
    weight = serializers.IntegerField(required=False, help_text=WEIGHT)
    parent = serializers.CharField(required=False, allow_null=True, help_text="null: at the top")  # type: ignore[assignment]


class Departments(APIView):
    @extend_schema(responses=listed(DepartmentOut))
    def get(self, request: Request) -> Response:
        """Those above the own teams, or for platform admins all, by name."""
        actor = actor_of(request)
        return Response({"results": _departments(actor, queries.departments_seen_by(actor).values())})

    @extend_schema(request=DepartmentIn, responses={201: DepartmentOut})
    def post(self, request: Request) -> Response:
        """Make one, for platform admins. Teams are moved into it with PATCH on the team."""
        actor = actor_of(request)
        require(actor, "platform.manage")
        row = services.create_department(actor, **sent(DepartmentIn, request))
        return Response(_department(actor, row.slug), status=201)


class OneDepartment(APIView):
    @extend_schema(responses=DepartmentOut)
    def get(self, request: Request, slug: str) -> Response:
        """One that is above an own team, or for platform admins any."""
        return Response(_department(actor_of(request), slug))

    @extend_schema(request=DepartmentChange, responses=DepartmentOut)
    def patch(self, request: Request, slug: str) -> Response:
        """Rename, weigh or move it, with all that is within it, for platform admins."""
        actor = actor_of(request)
        require(actor, "platform.manage")
        services.change_department(actor, slug, **sent(DepartmentChange, request))
        return Response(_department(actor, slug))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """One in which no team and no department stands any more, for platform admins."""
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
