from django.apps import AppConfig


class ServiceLevelsConfig(AppConfig):
    name = "webapp.service_levels"
    label = "service_levels"
