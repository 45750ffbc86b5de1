from django.apps import AppConfig


class BaseConfig(AppConfig):
    name = "webapp.base"
    label = "base"

    def ready(self) -> None:
        from celery.signals import before_task_publish, task_prerun

        from webapp.base import pulse

        before_task_publish.connect(pulse.stamp, dispatch_uid="base.pulse.stamp")
        task_prerun.connect(pulse.beat, dispatch_uid="base.pulse.beat")
