from django.apps import AppConfig


class DeploymentsConfig(AppConfig):
    name = "webapp.deployments"
    label = "deployments"

    def ready(self) -> None:
        from webapp.accounts.queries import may_watch_team
        from webapp.deployments import queries
        from webapp.sockets import subjects

        subjects.register("deployments", may_watch_team("deployment.view"))
        subjects.register("deployment", queries.may_watch)
