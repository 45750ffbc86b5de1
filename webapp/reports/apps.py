from django.apps import AppConfig


class ReportsConfig(AppConfig):
    name = "webapp.reports"
    label = "reports"

    def ready(self) -> None:
        from webapp.reports import receivers
        from webapp.sockets import subjects

        subjects.register("report", receivers.may_watch)
