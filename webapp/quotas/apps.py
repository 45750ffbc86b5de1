from django.apps import AppConfig


class QuotasConfig(AppConfig):
    name = "webapp.quotas"
    label = "quotas"

    def ready(self) -> None:
        from webapp.accounts import contributions
        from webapp.pages.teams import quota as panel

        contributions.panel_of_team("quota", panel.of_team)
