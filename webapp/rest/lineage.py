"""The family tree of an item over REST, and recalls of bad ones."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.lineage.graph import Edge, Item, Kind, Tree
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.lineage import queries, services
from webapp.lineage.items import Description
from webapp.recalls import queries as recalls
from webapp.recalls.models import Recall
from webapp.rest.bodies import sent
from webapp.rest.enums import LineageKind
from webapp.rest.openapi import listed


class LineageItem(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=LineageKind)
    id = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    team = serializers.CharField()
    owner = serializers.CharField(help_text="Username; empty: nobody.")
    at_ms = serializers.IntegerField(help_text="When it came to be.")
    state = serializers.CharField()
    recalled = serializers.CharField(
        help_text="Why nothing may be made from it any more; empty: it may be used."
    )
    depth = serializers.IntegerField(help_text="Steps from the item that was asked for.")


class LineageEdge(serializers.Serializer[Any]):
    source = serializers.CharField(help_text="kind:id")  # type: ignore[assignment]
    derived = serializers.CharField(help_text="kind:id, made from the source")


class LineageFamily(serializers.Serializer[Any]):
    item = LineageItem()
    upstream = LineageItem(many=True, help_text="What it comes from, nearest first.")
    downstream = LineageItem(many=True, help_text="What came of it, nearest first.")
    edges = LineageEdge(many=True)
    hidden = serializers.IntegerField(help_text="Items that belong to teams you are not in.")
    left_out = serializers.IntegerField(help_text=f"Items beyond the first {queries.MOST_ITEMS:,}.")


class RecallIn(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=LineageKind)
    item = serializers.CharField(max_length=40, help_text="Id of the item that is bad.")
    shard = serializers.CharField(
        required=False, default="", max_length=1_000,
        help_text="Path of the file that is bad, of a dataset: all its versions that have this file are recalled.",
    )  # fmt: skip
    reason = serializers.CharField(max_length=services.LONGEST_REASON, help_text="What is wrong with it.")
    stop_jobs = serializers.BooleanField(default=True, help_text="Cancel jobs that are made from it.")
    withdraw = serializers.BooleanField(
        default=True, help_text="Roll deployments back, and let endpoints go back to an earlier version."
    )


class RecallPreviewIn(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=LineageKind)
    item = serializers.CharField(max_length=40)


class RecallPreview(serializers.Serializer[Any]):
    marked = serializers.IntegerField(help_text="Items from which nothing could be made any more.")
    items = LineageItem(many=True, help_text="Those that you may see, and the services that use them.")


class RecallOut(serializers.ModelSerializer[Recall]):
    kind = serializers.ChoiceField(choices=LineageKind)
    team = serializers.CharField(source="team_id")
    recalled_by = serializers.CharField(source="recalled_by.username")
    lifted_by = serializers.CharField(source="lifted_by.username", allow_null=True, default=None)
    outcome = serializers.ListField(child=serializers.CharField(), help_text="What was done because of it.")
    marked = serializers.SerializerMethodField()

    class Meta:
        model = Recall
        fields = (
            "id", "team", "kind", "item", "label", "reason", "recalled_by", "recalled_ms", "outcome", "marked",
            "lifted_by", "lifted_ms",
        )  # fmt: skip

    def get_marked(self, row: Recall) -> int:
        return row.marks.count()


class Lineage(APIView):
    @extend_schema(responses={200: LineageFamily})
    def get(self, request: Request, kind: str, item_id: str) -> Response:
        """Read what an item comes from and what came of it: data, code, runs, checkpoints, models and services."""
        found = queries.family(actor_of(request), queries.item_of(kind, item_id))
        body = {
            "item": _item(found.start, 0),
            "upstream": _items(found, found.up),
            "downstream": _items(found, found.down),
            "edges": [_edge(edge) for edge in sorted(found.up.edges | found.down.edges)],
            "hidden": found.hidden,
            "left_out": found.up.left_out + found.down.left_out,
        }
        return Response(LineageFamily(body).data)


class Recalls(APIView):
    @extend_schema(responses=listed(RecallOut))
    def get(self, request: Request) -> Response:
        """List the recalls of items of your teams, newest first."""
        return Response({"results": RecallOut(recalls.recalls(actor_of(request).sees), many=True).data})

    @extend_schema(request=RecallIn, responses={201: RecallOut})
    def post(self, request: Request) -> Response:
        """Recall a dataset version, run, checkpoint or model version, and all that came of it.

        Sent again, it reaches what was made from the item since.
        """
        body = sent(RecallIn, request)
        wish = services.Wish(body["stop_jobs"], body["withdraw"])
        item = Item(Kind(body["kind"]), body["item"])
        actor, reason = actor_of(request), body["reason"]
        if body["shard"]:
            row = _recall_shard(actor, item, body["shard"], reason, wish)
        else:
            row = services.recall(actor, item, reason, wish)
        return Response(RecallOut(row).data, status=201)


class RecallReach(APIView):
    @extend_schema(request=RecallPreviewIn, responses={200: RecallPreview})
    def post(self, request: Request) -> Response:
        """Tell what a recall would reach, without doing anything."""
        body = sent(RecallPreviewIn, request)
        actor = actor_of(request)
        reached = services.reach(actor, Item(Kind(body["kind"]), body["item"]))
        seen = [_item(one, 0) for one in services.seen(actor, reached)]
        return Response(RecallPreview({"marked": len(reached.marked), "items": seen}).data)


class RecallDetail(APIView):
    @extend_schema(request=None, responses={200: RecallOut})
    def delete(self, request: Request, recall_id: str) -> Response:
        """Lift a recall: its items may be used again. Nothing that was stopped is started."""
        return Response(RecallOut(services.lift(actor_of(request), recall_id)).data)


def _recall_shard(actor: Actor, item: Item, path: str, reason: str, wish: services.Wish) -> Recall:
    if item.kind is not Kind.DATASET:
        why = f"a {item.kind.value} has no shards; leave it out, or recall a dataset"
        raise TrainmasterError("request_invalid", what="shard", why=why)
    return services.recall_shard(actor, item.id, path, reason, wish)[0]


def _items(found: queries.Family, tree: Tree) -> list[dict[str, Any]]:
    return [_item(found.described[item], tree.depths[item]) for item in found.listed(tree)]


def _item(one: Description, depth: int) -> dict[str, Any]:
    return {
        "kind": one.item.kind.value, "id": one.item.id, "label": one.label, "team": one.team, "owner": one.owner,
        "at_ms": one.at_ms, "state": one.state, "recalled": one.recalled, "depth": depth,
    }  # fmt: skip


def _edge(edge: Edge) -> dict[str, str]:
    return {"source": str(edge.source), "derived": str(edge.derived)}
