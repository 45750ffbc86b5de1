from django.apps import AppConfig


class RegistryConfig(AppConfig):
    name = "webapp.registry"
    label = "registry"

    def ready(self) -> None:
        from webapp.accounts.queries import may_watch_team
        from webapp.jobs.signals import submitted
        from webapp.registry import receivers
        from webapp.registry.signals import exports_known, version_ready
        from webapp.sockets import subjects

        submitted.connect(receivers.check_model, dispatch_uid="registry.check_model")
        submitted.connect(receivers.check_serving_target, dispatch_uid="registry.check_serving_target")
        version_ready.connect(receivers.read_exports, dispatch_uid="registry.read_exports")
        exports_known.connect(receivers.validate, dispatch_uid="registry.validate")
        subjects.register("models", may_watch_team("model.view"))
