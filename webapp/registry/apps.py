from django.apps import AppConfig


class RegistryConfig(AppConfig):
    name = "webapp.registry"
    label = "registry"

    def ready(self) -> None:
        from webapp.accounts.queries import may_watch_team
        from webapp.jobs.contributions import panel_of_job
        from webapp.pages.jobs import models as panels
        from webapp.sockets import subjects

        panel_of_job(panels.of_job)
        subjects.register("models", may_watch_team("model.view"))
