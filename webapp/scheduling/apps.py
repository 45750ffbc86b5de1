from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "webapp.scheduling"
    label = "scheduling"

    def ready(self) -> None:
        from webapp.jobs.contributions import forecast_of_wait
        from webapp.scheduling.forecasting import why_it_would_wait

        forecast_of_wait(why_it_would_wait)
