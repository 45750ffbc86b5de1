from django.apps import AppConfig


class RolloutsConfig(AppConfig):
    name = "webapp.rollouts"
    label = "rollouts"

    def ready(self) -> None:
        from webapp.deployments.signals import copies_changed
        from webapp.rollouts import services

        copies_changed.connect(services.copies_have_changed, dispatch_uid="rollouts.copies_changed")
