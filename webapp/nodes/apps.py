from typing import Any

from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "webapp.nodes"
    label = "clusters"

    def ready(self) -> None:
        from webapp.accounts import contributions
        from webapp.nodes import queries
        from webapp.quotas import contributions as books
        from webapp.sockets import subjects

        def everybody(user: Any, subject_id: str) -> bool:
            return bool(user.is_authenticated)

        subjects.register("node", everybody)
        subjects.register("cluster", everybody)
        books.register_capacity(queries.slots_by_type, queries.registered_slots)
        contributions.count_in_frame("nodes", lambda actor: queries.count())
