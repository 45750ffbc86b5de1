"""The frame of every page: navigation, tabs of a section, user menu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from webapp.accounts import queries
from webapp.accounts.models import Role
from webapp.accounts.permissions import Actor, may
from webapp.alerts import queries as alerts
from webapp.alerts.queries import Badge
from webapp.jobs import queries as jobs
from webapp.nodes import queries as nodes


@dataclass(frozen=True, slots=True)
class Place:
    """A page that the navigation leads to."""

    label: str
    view: str
    key: str = ""  # of the shortcut "g, then this letter"
    action: str = ""  # what one must be allowed to do to see it
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the navigation. Its places are the tabs of one page head; the first is where the entry leads."""

    label: str
    icon: str
    places: tuple[Place, ...]
    covers: tuple[str, ...]  # beginnings of view names that belong here
    count: Callable[[Actor], int] | None = None  # the number beside the entry: one cheap query


TEAMS = "Teams"
SECTIONS = (
    Section(
        "Home",
        "home",
        (Place("My work", "overview:work"), Place("Cluster", "overview:cluster", key="l")),
        ("overview:",),
    ),
    Section(
        "Jobs",
        "jobs",
        (Place("Jobs", "jobs:list", key="j"),),
        ("jobs:",),
        lambda actor: jobs.active_count(actor.sees),
    ),
    Section(
        "Queue",
        "queue",
        (Place("Queue", "queue:queue", key="q"),),
        ("queue:",),
        lambda actor: jobs.waiting_count(None),  # as the queue counts
    ),
    Section(
        "Experiments",
        "experiments",
        (
            Place("Experiments", "experiments:list", key="e"),
            Place("Sweeps", "sweeps:list"),
            Place("Reports", "reports:list"),
        ),
        ("experiments:", "runs:", "reports:", "sweeps:"),
    ),
    Section(
        "Models & data",
        "models",
        (
            Place("Models", "registry:list", key="m"),
            Place("Evaluation suites", "registry:suites"),
            Place("Datasets", "datasets:list"),
            Place("Deployments", "deployments:list", key="d"),
            Place("Endpoints", "serving:list"),
            Place("Retraining", "retraining:list"),
            Place("Recalls", "lineage:recalls"),
        ),
        ("registry:", "datasets:", "deployments:", "serving:", "retraining:", "lineage:"),
    ),
    Section(
        "Nodes",
        "nodes",
        (
            Place("Nodes", "nodes:nodes", key="n"),
            Place("Map", "nodes:map", key="p"),
            Place("Maintenance", "nodes:maintenance"),
            Place("Add a node", "nodes:tokens", action="node.operate"),
        ),
        ("nodes:",),
        lambda actor: nodes.count(),
    ),
    Section(TEAMS, "teams", (Place("Fair share", "teams:shares", key="f"),), ("teams:", "accounts:team")),
    Section(
        "Insights",
        "insights",
        (
            Place("Report", "report:report", key="r"),
            Place("Service levels", "service_levels:list", key="v"),
            Place("Efficiency", "efficiency:efficiency"),
            Place("Alerts", "alerts:list", key="b"),
            Place("Alert rules", "alerts:rules"),
            Place("Channels", "alerts:channels"),
            Place("Storage", "storage:storage"),
            Place("Forecasts", "queue:forecasts"),
            Place("What if", "queue:what-if"),
            Place("Planner", "planner:planner"),
            Place("Audit log", "overview:audit", key="a"),
        ),
        (
            "report:",
            "service_levels:",
            "efficiency:",
            "alerts:",
            "storage:",
            "queue:forecasts",
            "queue:what-if",
            "planner:",
            "overview:audit",
        ),
    ),
    Section(
        "Admin",
        "admin",
        (
            Place("Users", "admin_pages:users", action="platform.manage"),
            Place("Teams", "admin_pages:teams", action="platform.manage"),
            Place("Departments", "admin_pages:departments", action="platform.manage"),
            Place("Quotas", "admin_pages:quotas", action="platform.manage"),
            Place("Prices", "admin_pages:prices", action="platform.manage"),
        ),
        ("admin_pages:",),
    ),
)
HOME = Place("Home", "overview:home", key="o")
MENU = (Place("Settings", "accounts:settings", key="s"), Place("REST API", "api-docs"))
NEW_JOB = Place("New job", "jobs:submit", key="c")


@dataclass(frozen=True, slots=True)
class Link:
    label: str
    url: str
    key: str = ""
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    label: str
    icon: str
    url: str
    is_current: bool
    tabs: tuple[Link, ...]
    count: Callable[[], int] = field(default=lambda: 0)


class Frame:
    """What templates/base.html needs on every page. Nothing is read before the template asks for it."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @cached_property
    def _actor(self) -> Actor:
        return queries.actor_of(self._request)

    @cached_property
    def _view(self) -> str:
        match = self._request.resolver_match
        return match.view_name if match else ""

    @cached_property
    def teams(self) -> list[queries.TeamView]:
        """The reader's own teams, those they lead first; all of them for a platform admin."""
        roles = self._actor.roles
        views = queries.teams(None if self._actor.is_admin else roles)
        return sorted(
            views, key=lambda view: (roles.get(view.slug) != Role.LEAD, view.slug not in roles, view.name)
        )

    @cached_property
    def entries(self) -> list[Entry]:
        current = self._current
        return [
            Entry(
                section.label,
                section.icon,
                reverse(HOME.view) if section is SECTIONS[0] else tabs[0].url,
                section is current,
                tabs,
                self._count(section),
            )
            for section in SECTIONS
            if (tabs := self._tabs(section))
        ]

    @property
    def most_used(self) -> list[Entry]:
        """For the bar under the thumb."""
        return [entry for entry in self.entries if entry.icon in ("home", "jobs", "queue", "nodes")]

    @property
    def tabs(self) -> tuple[Link, ...]:
        """The places of the current section, if the page is one of several of them."""
        tabs = next((entry.tabs for entry in self.entries if entry.is_current), ())
        return tabs if len(tabs) > 1 and any(tab.is_current for tab in tabs) else ()

    @cached_property
    def menu(self) -> list[Link]:
        return [self._link(place) for place in MENU]

    @property
    def shortcuts(self) -> list[Link]:
        """Every place that has a letter, for the list of keys."""
        places = [tab for entry in self.entries for tab in entry.tabs]
        return [link for link in (self._link(HOME), *places, *self.menu, self._link(NEW_JOB)) if link.key]

    @cached_property
    def alerts(self) -> Badge:
        return alerts.badge(self._actor)

    @property
    def is_admin(self) -> bool:
        return self._actor.is_admin

    @cached_property
    def _current(self) -> Section | None:
        covers = [
            (len(start), section)
            for section in SECTIONS
            for start in section.covers
            if self._view.startswith(start)
        ]
        return max(covers, key=lambda pair: pair[0])[1] if covers else None

    def _count(self, section: Section) -> Callable[[], int]:
        count = section.count
        return (lambda: count(self._actor)) if count else (lambda: 0)

    def _tabs(self, section: Section) -> tuple[Link, ...]:
        places = (*self._of_teams(), *section.places) if section.label == TEAMS else section.places
        return tuple(
            self._link(place)
            for place in places
            if (not place.action or may(self._actor, place.action)) and _exists(place)
        )

    def _of_teams(self) -> list[Place]:
        return [
            Place(view.name, "accounts:team", "t" if number == 0 else "", args=(view.slug,))
            for number, view in enumerate(self.teams)
        ]

    def _link(self, place: Place) -> Link:
        url = reverse(place.view, args=place.args)
        home = "overview:cluster" if self._view == HOME.view and self._actor.is_admin else "overview:work"
        shown = home if self._view == HOME.view else self._view
        # A team's tab covers all sections of its page.
        is_current = self._request.path.startswith(url) if place.args else place.view == shown
        return Link(place.label, url, place.key, is_current)


def _exists(place: Place) -> bool:
    try:
        reverse(place.view, args=place.args)
    except NoReverseMatch:
        return False
    return True


def frame(request: HttpRequest) -> dict[str, Any]:
    user = getattr(request, "user", None)  # an error page may come before the middleware that sets it
    return {"frame": Frame(request)} if user is not None and user.is_authenticated else {}
