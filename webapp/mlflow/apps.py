from django.apps import AppConfig


class MlflowConfig(AppConfig):
    name = "webapp.mlflow"
    label = "mlflow"
