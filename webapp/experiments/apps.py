from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "webapp.experiments"
    label = "experiments"

    def ready(self) -> None:
        from django.db.models.signals import post_delete

        from webapp.experiments import queries, receivers
        from webapp.experiments.models import Run
        from webapp.jobs.signals import changed, submitted
        from webapp.sockets import subjects

        subjects.register("run", queries.may_watch_run)
        subjects.register("experiment", queries.may_watch_experiment)
        post_delete.connect(receivers.forget_points, sender=Run, dispatch_uid="experiments.forget_points")
        submitted.connect(receivers.make_run, dispatch_uid="experiments.make_run")
        changed.connect(receivers.follow_jobs, dispatch_uid="experiments.follow_jobs")
