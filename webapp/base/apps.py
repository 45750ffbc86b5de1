from django.apps import AppConfig


class BaseConfig(AppConfig):
    name = "webapp.base"
    label = "base"

    def ready(self) -> None:
        from celery.signals import before_task_publish, task_postrun, task_prerun, worker_shutting_down

        from trainmaster import gate
        from webapp.base import outbound, pulse, stops, tracing, traffic

        gate.install(outbound.addresses)

        worker_shutting_down.connect(stops.worker_ends, dispatch_uid="base.stops.worker_ends")
        before_task_publish.connect(pulse.stamp, dispatch_uid="base.pulse.stamp")
        task_prerun.connect(pulse.beat, dispatch_uid="base.pulse.beat")
        before_task_publish.connect(tracing.stamp, dispatch_uid="base.tracing.stamp")
        task_prerun.connect(tracing.begin, dispatch_uid="base.tracing.begin")
        task_postrun.connect(tracing.end, dispatch_uid="base.tracing.end")
        task_prerun.connect(traffic.TASKS.begin, dispatch_uid="base.traffic.begin")
        task_postrun.connect(traffic.TASKS.end, dispatch_uid="base.traffic.end")
