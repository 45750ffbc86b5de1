from django.apps import AppConfig


class CheckpointsConfig(AppConfig):
    name = "webapp.checkpoints"
    label = "checkpoints"

    def ready(self) -> None:
        from webapp.checkpoints.receivers import check_resume
        from webapp.jobs.signals import submitted

        submitted.connect(check_resume, dispatch_uid="checkpoints.check_resume")
