from collections.abc import Iterable

from django.db.models import Prefetch

from webapp.registry.models import Model, ModelVersion


def models(teams: Iterable[str] | None) -> list[Model]:
    """With their versions and whose they are. A manifest's document may have megabytes and is not read."""
    versions = ModelVersion.objects.select_related("manifest", "created_by").defer("manifest__document")
    prefetched = Prefetch("versions", queryset=versions)
    rows = Model.objects.select_related("team").prefetch_related(prefetched).order_by("team_id", "name")
    return list(rows if teams is None else rows.filter(team__in=list(teams)))


def names(team: str) -> list[str]:
    return list(Model.objects.filter(team=team).order_by("name").values_list("name", flat=True))


def model(team: str, name: str) -> Model | None:
    return Model.objects.filter(team=team, name=name).first()


def versions(model: Model) -> list[ModelVersion]:
    return list(model.versions.select_related("manifest", "created_by", "job").order_by("-version"))


def version(version_id: str) -> ModelVersion | None:
    return ModelVersion.objects.select_related("model__team", "manifest").filter(id=version_id).first()


def find_version(model_id: str, number: int, teams: Iterable[str] | None) -> ModelVersion | None:
    """`model_id` is "team/name", or a name that only one of these teams has."""
    team, _, name = model_id.rpartition("/")
    rows = ModelVersion.objects.select_related("model__team", "manifest").filter(
        model__name=name, version=number
    )
    if team:
        rows = rows.filter(model__team=team)
    if teams is not None:
        rows = rows.filter(model__team__in=list(teams))
    candidates = list(rows[:2])
    return candidates[0] if len(candidates) == 1 else None
