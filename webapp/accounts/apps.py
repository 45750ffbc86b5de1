from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "webapp.accounts"
    label = "accounts"

    def ready(self) -> None:
        from webapp.accounts.queries import may_watch_team
        from webapp.sockets import subjects

        subjects.register("team", may_watch_team("team.view"))
