from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "webapp.experiments"
    label = "experiments"

    def ready(self) -> None:
        from webapp.experiments.receivers import make_run
        from webapp.jobs.signals import submitted

        submitted.connect(make_run, dispatch_uid="experiments.make_run")
