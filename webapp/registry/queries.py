from collections.abc import Iterable
from typing import Any

from django.db.models import OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, JSONObject

from platform_core.errors import TrainmasterError
from platform_core.node.wanted import ArtifactReference
from platform_core.registry import policy_reader
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.registry import files
from webapp.registry.models import Evaluation, Model, ModelVersion, ServingTarget


def models(teams: Iterable[str] | None) -> list[Model]:
    """With their versions and whose they are. A manifest's document may have megabytes and is not read."""
    versions = ModelVersion.objects.filter(deleted_ms=None).select_related("manifest", "created_by")
    versions = versions.defer("manifest__document").prefetch_related("aliases")
    prefetched = Prefetch("versions", queryset=versions)
    rows = living(teams).select_related("team").prefetch_related(prefetched).order_by("team_id", "name")
    return list(rows)


def living(teams: Iterable[str] | None) -> QuerySet[Model]:
    """Models that are not deleted; of every team for None."""
    rows = Model.objects.filter(deleted_ms=None)
    return rows if teams is None else rows.filter(team__in=list(teams))


def names(team: str) -> list[str]:
    return list(living([team]).order_by("name").values_list("name", flat=True))


def model(team: str, name: str) -> Model | None:
    return living([team]).filter(name=name).first()


def model_for(actor: Actor, team: str, name: str) -> Model:
    """Raises not_found, also where the actor may not see it."""
    permissions.require(actor, "model.view", team, what=f"model {team}/{name}")
    found = model(team, name)
    if found is None:
        raise TrainmasterError("not_found", what=f"model {team}/{name}")
    return found


def versions(model: Model) -> list[ModelVersion]:
    rows = model.versions.filter(deleted_ms=None).select_related("manifest", "created_by", "job")
    return list(rows.prefetch_related("aliases").order_by("-version"))


def numbered(model: Model, number: int) -> ModelVersion:
    """Raises not_found."""
    rows = model.versions.filter(version=number, deleted_ms=None).select_related(
        "model", "created_by", "manifest"
    )
    row = rows.prefetch_related("aliases").first()
    if row is None:
        raise TrainmasterError("not_found", what=f"version {number} of model {model}")
    return row


def of_alias(model: Model, alias: str) -> ModelVersion | None:
    return ModelVersion.objects.filter(model=model, deleted_ms=None, aliases__name=alias).first()


def made_from(run_id: str) -> list[ModelVersion]:
    """Versions registered from a run or from its job, newest first."""
    rows = ModelVersion.objects.filter(deleted_ms=None, model__deleted_ms=None).select_related("model")
    return list(rows.filter(Q(run=run_id) | Q(job=run_id)).order_by("-created_ms", "id"))


def version(version_id: str) -> ModelVersion | None:
    rows = ModelVersion.objects.select_related("model__team", "manifest").prefetch_related("aliases")
    return rows.filter(id=version_id, deleted_ms=None).first()


def named(team: str, reference: str) -> ModelVersion | None:
    """The version of "name:number" in this team, if its files can be had."""
    name, _, number = reference.rpartition(":")
    rows = ModelVersion.objects.filter(
        model__team=team, model__name=name, model__deleted_ms=None, deleted_ms=None, state="ready"
    )
    return rows.exclude(manifest=None).filter(version=int(number)).first() if number.isdigit() else None


def suites_of_gate(model: Model) -> frozenset[str]:
    """The suites that its gate names."""
    return policy_reader.read(model.gate).suites


def compared_suites(model: Model) -> frozenset[str]:
    """Those by which its gate compares versions with the one in production."""
    return frozenset(margin.suite for margin in policy_reader.read(model.gate).margins)


def in_production(model: Model) -> ModelVersion | None:
    """The newest version there."""
    rows = model.versions.filter(stage="production", deleted_ms=None).select_related("model")
    return rows.order_by("-changed_ms", "-version").first()


def measured(version: ModelVersion, suite: str, metric: str) -> float | None:
    """The mean that a suite measured, by the server rather than by people; None where there is none."""
    row = version.evaluations.filter(suite=suite).defer("samples").order_by("-by_server").first()
    mean = (row.metrics.get(metric) or {}).get("mean") if row is not None else None
    return None if mean is None else float(mean)


def files_of(team: str, reference: str) -> ArtifactReference:
    """Where the files of "name:number" lie. Raises TrainmasterError of not_found."""
    version = named(team, reference)
    if version is None or version.manifest_id is None:
        raise TrainmasterError("not_found", what=f"model {reference} in team {team}")
    return artifacts.reference(version.manifest_id)


def manifest_of(team: str, reference: str) -> str:
    """Of "name:number"; "" where there is none."""
    version = named(team, reference)
    return (version.manifest_id or "") if version is not None else ""


def serving_constraints(team: str, name: str) -> dict[str, Any] | None:
    """What this serving target of the team asks, with its name; None where there is none."""
    row = ServingTarget.objects.filter(team=team, name=name).first()
    return None if row is None else {"name": row.name, **row.constraints}


def living_versions(teams: Iterable[str]) -> QuerySet[ModelVersion]:
    """Versions that are not deleted, with their model, their aliases and who made them."""
    rows = ModelVersion.objects.filter(deleted_ms=None, model__deleted_ms=None, model__team__in=list(teams))
    rows = rows.select_related("model", "created_by", "manifest").defer("manifest__document")
    return rows.prefetch_related("aliases")


def find_version(model_id: str, number: int, teams: Iterable[str] | None) -> ModelVersion | None:
    """`model_id` is "team/name", or a name that only one of these teams has."""
    team, _, name = model_id.rpartition("/")
    rows = ModelVersion.objects.select_related("model__team", "manifest").filter(
        model__name=name, model__deleted_ms=None, version=number, deleted_ms=None
    )
    if team:
        rows = rows.filter(model__team=team)
    if teams is not None:
        rows = rows.filter(model__team__in=list(teams))
    candidates = list(rows[:2])
    return candidates[0] if len(candidates) == 1 else None


def origins(
    *, versions: Iterable[str] = (), runs: Iterable[str] = (), checkpoints: Iterable[str] = ()
) -> list[ModelVersion]:
    """These versions, and those that were registered from one of these runs, their jobs or checkpoints."""
    of_run = list(runs)
    wanted = (
        Q(id__in=list(versions)) | Q(source__in=list(checkpoints)) | Q(run__in=of_run) | Q(job__in=of_run)
    )
    rows = ModelVersion.objects.filter(wanted).select_related("model", "created_by")
    return list(rows.order_by("id"))


def by_reference(references: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """(team, "name:number") → id of the version; deleted ones too, unknown ones are left out."""
    wanted = set(references)
    names = {reference.rpartition(":")[0] for _, reference in wanted}
    rows = ModelVersion.objects.filter(model__name__in=names, model__team__in={team for team, _ in wanted})
    found = rows.order_by("created_ms").values_list("model__team_id", "model__name", "version", "id")
    named = {(team, f"{name}:{number}"): key for team, name, number, key in found}
    return {reference: key for reference, key in named.items() if reference in wanted}


def evaluated(
    *, versions: Iterable[str] = (), jobs: Iterable[str] = (), evaluations: Iterable[str] = ()
) -> list[Evaluation]:
    """These evaluations, those of these versions, and those that these jobs measured."""
    numbers = [int(evaluation) for evaluation in evaluations if evaluation.isdecimal()]
    wanted = Q(version__in=list(versions)) | Q(job__in=list(jobs)) | Q(id__in=numbers)
    rows = Evaluation.objects.filter(wanted)
    return list(rows.select_related("version__model", "evaluated_by").defer("samples").order_by("id"))


def has_file(version: ModelVersion, name: str) -> bool:
    """Whether a file of this name is among those of the version, in any folder."""
    if version.manifest_id is None:
        return False
    return bool(
        files.outermost((str(file["path"]) for file in artifacts.file_list(version.manifest_id)), name)
    )


def read_file(version: ModelVersion, name: str, most: int) -> bytes:
    """Raises request_invalid where it is absent, has more bytes, or is no longer what it was."""
    return files.read(version, name, most)[1]


def origin() -> Subquery:
    """The JSON {project, owner} of the newest version whose files a manifest of a team is."""
    rows = ModelVersion.objects.filter(manifest=OuterRef("id"), model__team=OuterRef("teams"))
    project = Coalesce("job__project", "run__job__project")
    origins = rows.order_by("-created_ms").values(
        origin=JSONObject(project=project, owner="created_by__username")
    )
    return Subquery(origins[:1])
