from django.apps import AppConfig


class BaseConfig(AppConfig):
    name = "webapp.base"
    label = "base"
