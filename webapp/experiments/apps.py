from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "webapp.experiments"
    label = "experiments"

    def ready(self) -> None:
        from webapp.experiments import queries, receivers
        from webapp.jobs.signals import changed, submitted
        from webapp.sockets import subjects

        subjects.register("run", queries.may_watch_run)
        subjects.register("experiment", queries.may_watch_experiment)
        submitted.connect(receivers.make_run, dispatch_uid="experiments.make_run")
        changed.connect(receivers.follow_jobs, dispatch_uid="experiments.follow_jobs")
