from django.apps import AppConfig


class ServingConfig(AppConfig):
    name = "webapp.serving"
    label = "serving"

    def ready(self) -> None:
        from webapp.accounts.queries import may_watch_team
        from webapp.registry.signals import version_ready
        from webapp.serving import queries, training
        from webapp.sockets import subjects

        version_ready.connect(training.ask, dispatch_uid="serving.read_training_reference")
        subjects.register("endpoints", may_watch_team("endpoint.view"))
        subjects.register("endpoint", queries.may_watch)
