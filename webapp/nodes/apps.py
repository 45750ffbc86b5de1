from typing import Any

from django.apps import AppConfig


class NodesConfig(AppConfig):
    name = "webapp.nodes"
    label = "nodes"

    def ready(self) -> None:
        from webapp.sockets import subjects

        def everybody(user: Any, subject_id: str) -> bool:
            return bool(user.is_authenticated)

        subjects.register("node", everybody)
