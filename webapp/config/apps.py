from django.apps import AppConfig


class PlatformConfig(AppConfig):
    name = "webapp.config"

    def ready(self) -> None:
        # Tasks are sent by name from every process, so each needs the Celery app.
        import webapp.config.celery  # noqa: F401
        from webapp.config import checks  # noqa: F401  registers the rules between settings
