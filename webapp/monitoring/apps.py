from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    name = "webapp.monitoring"
    label = "monitoring"

    def ready(self) -> None:
        from webapp.sockets import subjects

        subjects.register("audit", lambda user, _: True)  # a bare hint: what the page then shows is filtered
