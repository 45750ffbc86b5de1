from django.apps import AppConfig


class QuotasConfig(AppConfig):
    name = "webapp.quotas"
    label = "quotas"

    def ready(self) -> None:
        from webapp.accounts.signals import team_archived
        from webapp.quotas import receivers

        team_archived.connect(receivers.give_back_quotas, dispatch_uid="quotas.team_archived")
