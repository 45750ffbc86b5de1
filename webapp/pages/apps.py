from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "webapp.pages"
    label = "pages"

    def ready(self) -> None:
        from webapp.accounts.permissions import may
        from webapp.accounts.queries import actor_of
        from webapp.deployments import queries as deployments
        from webapp.pages.deployments.numbers import numbers
        from webapp.pages.overview import audit
        from webapp.sockets import subjects

        subjects.register("cluster", lambda user, part: not part and may(actor_of(user), "cluster.view"))
        subjects.register("audit", audit.may_watch)
        subjects.register("progress", deployments.may_watch, numbers)
