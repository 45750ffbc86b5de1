from django.apps import AppConfig


class DeploymentsConfig(AppConfig):
    name = "webapp.deployments"
    label = "deployments"
