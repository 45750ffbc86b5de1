from django.apps import AppConfig


class CheckpointsConfig(AppConfig):
    name = "webapp.checkpoints"
    label = "checkpoints"

    def ready(self) -> None:
        from webapp.checkpoints import receivers
        from webapp.jobs.contributions import choices_of_form, panel_of_job
        from webapp.jobs.signals import submitted
        from webapp.pages.jobs import checkpoints as panels

        submitted.connect(receivers.check_resume, dispatch_uid="checkpoints.check_resume")
        panel_of_job(panels.of_job)
        choices_of_form(panels.choices)
