from typing import Any

from webapp.accounts.permissions import Actor
from webapp.quotas import services


def give_back_quotas(sender: Any, team: str, actor: Actor, **_: Any) -> None:
    """What an archived team was guaranteed is free for other teams."""
    services.delete_quotas(actor, team)
