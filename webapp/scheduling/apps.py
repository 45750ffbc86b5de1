from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "webapp.scheduling"
    label = "scheduling"
