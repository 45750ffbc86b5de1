from django.apps import AppConfig


class RecallsConfig(AppConfig):
    name = "webapp.recalls"
    label = "recalls"
