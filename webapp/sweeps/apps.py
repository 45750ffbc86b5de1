from django.apps import AppConfig


class SweepsConfig(AppConfig):
    name = "webapp.sweeps"
    label = "sweeps"

    def ready(self) -> None:
        from webapp.accounts.queries import may_watch_team
        from webapp.sockets import subjects
        from webapp.sweeps import queries

        subjects.register("sweeps", may_watch_team("sweep.view"))
        subjects.register("sweep", queries.may_watch)
