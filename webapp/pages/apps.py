from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "webapp.pages"
    label = "pages"

    def ready(self) -> None:
        from webapp.accounts.permissions import may
        from webapp.accounts.queries import actor_of
        from webapp.deployments import queries as deployments
        from webapp.pages.deployments.numbers import numbers
        from webapp.sockets import subjects

        subjects.register("cluster", lambda user, _: may(actor_of(user), "cluster.view"))
        subjects.register("audit", lambda user, _: True)  # a bare hint: what the page then shows is filtered
        subjects.register("progress", deployments.may_watch, numbers)
