from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "webapp.scheduling"
    label = "scheduling"

    def ready(self) -> None:
        from webapp.accounts.contributions import panel_of_team
        from webapp.jobs.contributions import forecast_of_wait, outlook_of_wait, panel_of_job
        from webapp.jobs.signals import preempted
        from webapp.nodes.contributions import register_kept_places
        from webapp.pages.queue.panels import kept_places, of_job, of_team
        from webapp.scheduling.dry_run import outlook, why_it_would_wait
        from webapp.scheduling.services import keep_receipt
        from webapp.scheduling.what_if import may_watch
        from webapp.sockets import subjects

        preempted.connect(keep_receipt, dispatch_uid="scheduling.keep_receipt")
        subjects.register("whatif", may_watch)
        forecast_of_wait(why_it_would_wait)
        outlook_of_wait(outlook)
        panel_of_job(of_job)
        panel_of_team("receipts", of_team)
        register_kept_places(kept_places)
