from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    name = "webapp.monitoring"
    label = "monitoring"

    def ready(self) -> None:
        from webapp.accounts.permissions import may
        from webapp.accounts.queries import actor_of
        from webapp.live import subjects

        subjects.register("cluster", lambda user, _: may(actor_of(user), "cluster.view"))
        subjects.register("audit", lambda user, _: True)  # a bare hint: what the page then shows is filtered
