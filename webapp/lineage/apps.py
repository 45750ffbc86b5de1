from django.apps import AppConfig


class LineageConfig(AppConfig):
    name = "webapp.lineage"
    label = "lineage"
