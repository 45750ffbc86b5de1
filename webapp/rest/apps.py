from django.apps import AppConfig


class RestConfig(AppConfig):
    name = "webapp.rest"
    label = "rest"

    def ready(self) -> None:
        from webapp.rest import authentication  # noqa: F401  registers how the OpenAPI document describes tokens
