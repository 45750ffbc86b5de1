from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "webapp.experiments"
    label = "experiments"

    def ready(self) -> None:
        from webapp.experiments import receivers
        from webapp.jobs.signals import submitted

        submitted.connect(receivers.make_run, dispatch_uid="experiments.make_run")
