from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "webapp.scheduling"
    label = "scheduling"

    def ready(self) -> None:
        from webapp.jobs.signals import preempted
        from webapp.scheduling.services import keep_receipt
        from webapp.scheduling.what_if import may_watch
        from webapp.sockets import subjects

        preempted.connect(keep_receipt, dispatch_uid="scheduling.keep_receipt")
        subjects.register("whatif", may_watch)
