from django.apps import AppConfig


class PlatformConfig(AppConfig):
    name = "webapp.config"

    def ready(self) -> None:
        # Tasks are sent by name from every process, so each needs the Celery app. Not in __init__.py: the operators'
        # commands in this package must start without Django's settings.
        import webapp.config.celery  # noqa: F401
        from webapp.config import checks  # noqa: F401  registers the rules between settings
