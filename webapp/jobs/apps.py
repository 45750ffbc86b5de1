from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "webapp.jobs"
    label = "jobs"

    def ready(self) -> None:
        from webapp.accounts.queries import may_watch_team
        from webapp.accounts.signals import secret_deleted, team_archived
        from webapp.jobs import hints, queries, receivers, services
        from webapp.nodes.signals import capacity_changed, leaving
        from webapp.quotas.signals import limits_changed
        from webapp.sockets import subjects

        subjects.register("jobs", may_watch_team("job.view"))
        subjects.register("job", queries.may_watch)
        secret_deleted.connect(receivers.keep_secret_in_use, dispatch_uid="jobs.secret_deleted")
        team_archived.connect(receivers.keep_team_in_use, dispatch_uid="jobs.team_archived")
        limits_changed.connect(hints.asked_by_signal, dispatch_uid="jobs.limits_changed")
        leaving.connect(services.node_leaves, dispatch_uid="jobs.leaving")
        capacity_changed.connect(hints.asked_by_signal, dispatch_uid="jobs.capacity_changed")
