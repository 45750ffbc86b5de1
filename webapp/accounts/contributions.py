"""What apps standing above this one add to the frame of every page and to the team page.

They cannot be imported here, so each registers what it has to say when it starts (AppConfig.ready).
"""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest

from webapp.accounts.permissions import Actor

Count = Callable[[Actor], int]
# (request, actor, team slug) → context of the team page
Panel = Callable[[HttpRequest, Actor, str], dict[str, Any]]

_COUNTS: dict[str, Count] = {}
_PANELS: dict[str, Panel] = {}


def count_in_frame(name: str, count: Count) -> None:
    """The number beside a link of the navigation: jobs, waiting, deployments, nodes. One cheap query."""
    _COUNTS[name] = count


def panel_of_team(name: str, panel: Panel) -> None:
    _PANELS[name] = panel


def count(name: str, actor: Actor) -> int | None:
    return _COUNTS[name](actor) if name in _COUNTS else None


def panels(request: HttpRequest, actor: Actor, team: str) -> dict[str, Any]:
    return {key: value for panel in _PANELS.values() for key, value in panel(request, actor, team).items()}
