from typing import Any

from django.apps import AppConfig


class NodesConfig(AppConfig):
    name = "webapp.nodes"
    label = "nodes"

    def ready(self) -> None:
        from webapp.accounts.permissions import may
        from webapp.accounts.queries import actor_of
        from webapp.nodes.models import Node
        from webapp.sockets import subjects

        def may_watch(user: Any, node_id: str) -> bool:
            return may(actor_of(user), "node.view") and Node.objects.filter(id=node_id).exists()

        subjects.register("node", may_watch)
