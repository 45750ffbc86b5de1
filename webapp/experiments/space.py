"""What the runs of a team take of the store: files, logged models and rich values count against one limit."""

from django.conf import settings
from django.db.models import Q, Sum

from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes
from webapp.artifacts import queries as artifacts
from webapp.experiments.models import RichValue, RunFile


def used(team: str) -> int:
    files = RunFile.objects.filter(Q(run__experiment__team=team) | Q(model__experiment__team=team))
    values = RichValue.objects.filter(run__experiment__team=team)
    return sum(rows.aggregate(sum=Sum("size"))["sum"] or 0 for rows in (files, values))


def limit(team: str) -> int:
    own = artifacts.storage_limit(team, "run files")
    return settings.TEAM_UPLOAD_LIMIT_BYTES if own is None else min(own, settings.TEAM_UPLOAD_LIMIT_BYTES)


def left(team: str) -> int:
    return max(0, limit(team) - used(team))


def full(team: str, what: str) -> TrainmasterError:
    """The refusal of something that no longer fits."""
    most = limit(team)
    if most < settings.TEAM_UPLOAD_LIMIT_BYTES:
        return artifacts.beyond_limit(team, "run files", used(team), most, what)
    sentence = (
        f"{what} does not fit: the files and logged values of the runs of team {team} have {format_bytes(used(team))} "
        f"of {format_bytes(most)}. Delete runs, or let an operator raise TRAINMASTER_TEAM_UPLOAD_LIMIT_BYTES"
    )
    return TrainmasterError("too_large", sentence, limit=most)
