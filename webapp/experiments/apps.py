from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "webapp.experiments"
    label = "experiments"

    def ready(self) -> None:
        from webapp.experiments import receivers
        from webapp.jobs.contributions import panel_of_job
        from webapp.jobs.signals import submitted
        from webapp.pages.jobs import run as panels

        submitted.connect(receivers.make_run, dispatch_uid="experiments.make_run")
        panel_of_job(panels.of_job)
