from django.apps import AppConfig


class CheckpointsConfig(AppConfig):
    name = "webapp.checkpoints"
    label = "checkpoints"

    def ready(self) -> None:
        from webapp.checkpoints import receivers
        from webapp.jobs.signals import submitted

        submitted.connect(receivers.check_resume, dispatch_uid="checkpoints.check_resume")
