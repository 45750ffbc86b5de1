from django.apps import AppConfig


class EvaluationsConfig(AppConfig):
    name = "webapp.evaluations"
    label = "evaluations"

    def ready(self) -> None:
        from webapp.evaluations import receivers
        from webapp.registry.signals import version_ready

        version_ready.connect(receivers.evaluate_candidate, dispatch_uid="evaluations.evaluate_candidate")
