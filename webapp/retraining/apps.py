from django.apps import AppConfig


class RetrainingConfig(AppConfig):
    name = "webapp.retraining"
    label = "retraining"
