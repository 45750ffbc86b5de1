from django.apps import AppConfig


class ServingConfig(AppConfig):
    name = "webapp.serving"
    label = "serving"

    def ready(self) -> None:
        from webapp.accounts.queries import may_watch_team
        from webapp.serving import queries
        from webapp.sockets import subjects

        subjects.register("endpoints", may_watch_team("endpoint.view"))
        subjects.register("endpoint", queries.may_watch)
