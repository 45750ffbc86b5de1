from typing import Any

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "webapp.alerts"
    label = "alerts"

    def ready(self) -> None:
        from webapp.alerts import delays
        from webapp.service_levels import services as service_levels
        from webapp.sockets import subjects

        def everybody(user: Any, subject_id: str) -> bool:
            return bool(user.is_authenticated)

        subjects.register("alerts", everybody)
        service_levels.register("alert_delay", delays.read)
