from django.apps import AppConfig


class RegistryConfig(AppConfig):
    name = "webapp.registry"
    label = "registry"

    def ready(self) -> None:
        from webapp.accounts.queries import may_watch_team
        from webapp.sockets import subjects

        subjects.register("models", may_watch_team("model.view"))
