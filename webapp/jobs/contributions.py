"""What the apps above add to the job pages, without the jobs app knowing them. Each registers when it starts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from platform_core.jobs.spec import JobSpec
from webapp.jobs.models import Job

Panel = Callable[[HttpRequest, Job], dict[str, Any]]
Choices = Callable[[list[str]], dict[str, Any]]  # team slugs → lists to choose from in the form
Forecast = Callable[[JobSpec, str], str]  # (spec, username) → why it would wait now, or ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Why a job would wait ("": it would start at once), its place among those of its type, when it should start
    ("": not in sight), and what one change would start it at once."""

    why: str
    position: int
    starts: str
    changes: tuple[str, ...]


Look = Callable[[JobSpec, str], Outlook]  # (spec, username)

_PANELS: list[Panel] = []
_CHOICES: list[Choices] = []
_FORECASTS: list[Forecast] = []
_OUTLOOKS: list[Look] = []


def panel_of_job(panel: Panel) -> None:
    """Adds to the context of a job's page; what costs something as a function, as in every page's context."""
    _PANELS.append(panel)


def choices_of_form(choices: Choices) -> None:
    _CHOICES.append(choices)


def forecast_of_wait(forecast: Forecast) -> None:
    _FORECASTS.append(forecast)


def outlook_of_wait(look: Look) -> None:
    _OUTLOOKS.append(look)


def panels(request: HttpRequest, job: Job) -> dict[str, Any]:
    return {key: value for panel in _PANELS for key, value in panel(request, job).items()}


def choices(teams: list[str]) -> dict[str, Any]:
    return {key: value for choice in _CHOICES for key, value in choice(teams).items()}


def forecast(spec: JobSpec, username: str) -> str:
    """The first reason to wait that anybody knows of."""
    return next((reason for told in _FORECASTS if (reason := told(spec, username))), "")


def outlook(spec: JobSpec, username: str) -> Outlook | None:
    """With the reason, and dearer than it alone: a form asks once it has come to rest."""
    return next((look(spec, username) for look in _OUTLOOKS), None)
