from typing import Any

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "webapp.alerts"
    label = "alerts"

    def ready(self) -> None:
        from webapp.accounts.permissions import may
        from webapp.accounts.queries import actor_of
        from webapp.alerts import delays
        from webapp.service_levels import services as service_levels
        from webapp.sockets import subjects

        def may_watch(user: Any, team: str) -> bool:
            actor = actor_of(user)
            return not team or actor.is_admin or may(actor, "alert.view", team)

        subjects.register("alerts", may_watch)
        service_levels.register("alert_delay", delays.read)
