from django.apps import AppConfig


class DeploymentsConfig(AppConfig):
    name = "webapp.deployments"
    label = "deployments"

    def ready(self) -> None:
        from webapp.accounts.contributions import count_in_frame
        from webapp.accounts.queries import may_watch_team
        from webapp.deployments import queries
        from webapp.pages.deployments import panels
        from webapp.pages.deployments.numbers import numbers
        from webapp.registry.contributions import deployed
        from webapp.sockets import subjects

        deployed(panels.of_model)
        count_in_frame("deployments", lambda actor: queries.active_count(actor.sees))
        subjects.register("deployments", may_watch_team("deployment.view"))
        subjects.register("deployment", queries.may_watch)
        subjects.register("progress", queries.may_watch, numbers)
