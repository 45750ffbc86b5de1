"""Models and their versions. A version is a manifest: of a checkpoint, an upload, or a source that is read once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction

from platform_core.distribution.content import address
from platform_core.distribution.planning.sizes import Sizes, advise, keep, sizes_of
from platform_core.errors import TrainmasterError
from platform_core.lineage.graph import Kind
from trainmaster.store.address import located, url_of
from trainmaster.store.copying import describe as describe_source
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifact_queries
from webapp.artifacts import services as artifacts
from webapp.base.identity import new_id, now_ms
from webapp.checkpoints import queries as checkpoints
from webapp.events import services as events
from webapp.experiments import queries as runs
from webapp.experiments import services as experiments
from webapp.nodes import queries as clusters
from webapp.recalls import queries as recalls
from webapp.registry import hints, queries
from webapp.registry.cards import model_card, plain
from webapp.registry.catalogue import (
    create_model,
    delete_alias,
    delete_model,
    delete_tags,
    delete_version,
    demote,
    describe,
    fill_card,
    rename_model,
    restore,
    set_alias,
    set_stage,
    set_tags,
)
from webapp.registry.gates import Measurement, keep_measured, keep_validation, refusals, require_proven
from webapp.registry.models import Model, ModelVersion
from webapp.registry.recording import subject_of
from webapp.registry.signals import version_ready
from webapp.sockets import services as sockets

if TYPE_CHECKING:
    from webapp.experiments.files import Owner
    from webapp.experiments.models import Run

__all__ = [
    "Measurement",
    "check_source",
    "create_model",
    "delete_alias",
    "delete_model",
    "delete_tags",
    "delete_version",
    "demote",
    "describe",
    "fill_card",
    "keep_measured",
    "keep_validation",
    "model_card",
    "plain",
    "read_source",
    "refusals",
    "register",
    "register_logged",
    "rename_model",
    "require_proven",
    "restore",
    "set_alias",
    "set_stage",
    "set_tags",
    "subject_of",
]

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,119}")


def register(
    actor: Actor, team: str, name: str, *, checkpoint: str = "", manifest: str = "", source_url: str = "",
    artifact: str = "",
) -> ModelVersion:  # fmt: skip
    """The next version of a model, from exactly one of a checkpoint, an uploaded manifest, a source URL, or an
    artifact: RUN/FOLDER, a folder or file that a run of the team logged.

    A source URL is read and hashed in the background: the version is `registering` until then.
    """
    permissions.require(actor, "model.register", team)
    if not NAME.fullmatch(name) and queries.model(team, name) is None:
        why = f"{name!r} must be small letters, digits, '.', '_' or '-', at most 120"
        raise TrainmasterError("request_invalid", what="name", why=why)
    if sum(map(bool, (checkpoint, manifest, source_url, artifact))) != 1:
        why = "give one of checkpoint, manifest, source_url and artifact"
        raise TrainmasterError("request_invalid", what="the source", why=why)
    if source_url:
        source_url = check_source(source_url)
    with transaction.atomic():
        now = now_ms()
        defaults = {"created_ms": now, "changed_ms": now}
        model, _ = Model.objects.get_or_create(team_id=team, name=name, deleted_ms=None, defaults=defaults)
        version = _next_version(actor, model, checkpoint or manifest or source_url or artifact)
        if checkpoint:
            _from_checkpoint(version, team, checkpoint)
        elif manifest:
            _from_manifest(version, team, manifest)
        elif artifact:
            _from_artifact(version, team, artifact)
        _save(actor, version)
        if source_url:
            hints.read_source(version.id)
    return version


def register_logged(
    actor: Actor,
    model: Model,
    source: str,
    *,
    files: tuple[Owner, str] | None = None,
    like: ModelVersion | None = None,
    run: Run | None = None,
    **fields: Any,
) -> ModelVersion:
    """The next version from a folder of files of a run or a logged model, from another version, or from elsewhere.

    `files` is the owner and the folder. What lies elsewhere is recorded as `external` and cannot be deployed.
    """
    permissions.require(actor, "model.register", model.team_id)
    with transaction.atomic():
        version = _next_version(actor, model, source)
        for name, value in fields.items():
            setattr(version, name, value)
        version.run, version.job_id = run, run.job_id if run else None
        version.manifest = like.manifest if like else experiments.model_of_files(*files) if files else None
        version.state = "ready" if version.manifest_id else "external"
        _save(actor, version)
    return version


def _next_version(actor: Actor, model: Model, source: str) -> ModelVersion:
    """Locks the model: two registrations at once get two numbers. A deleted version keeps its number."""
    model = Model.objects.select_for_update().get(id=model.id)
    if model.deleted_ms is not None:
        raise TrainmasterError("not_found", what=f"model {model.name}")
    newest = ModelVersion.objects.filter(model=model).order_by("-version").first()
    now = now_ms()
    Model.objects.filter(id=model.id).update(changed_ms=now)
    return ModelVersion(
        id=new_id("mv"),
        model=model,
        version=newest.version + 1 if newest else 1,
        source=source,
        licence=newest.licence if newest else "",
        card=newest.card if newest else "",
        created_ms=now,
        changed_ms=now,
        created_by_id=accounts.user_key(actor.username),
    )


def _save(actor: Actor, version: ModelVersion) -> None:
    origin = version.run_id or version.job_id
    if origin and (why := recalls.why(Kind.RUN, origin)):
        raise TrainmasterError("request_invalid", what=f"a model of run {origin}", why=why)
    version.save()
    model = version.model
    if version.state == "ready":
        version_ready.send(ModelVersion, version=version)
    events.record(
        "VersionRegistered",
        subject_of(model),
        actor=actor.name,
        team=model.team_id,
        cause=f"{model.name} version {version.version} from {version.source}",
        notify=(f"models:{model.team_id}",),
    )


def check_source(source_url: str) -> str:
    """The address in its one spelling, where an operator allowed the platform to read with its own credentials."""
    source = located(source_url)
    address.check_source(
        source, [located(prefix) for prefix in settings.SOURCE_PREFIXES], artifact_queries.stores()
    )
    return url_of(source)


def _from_checkpoint(version: ModelVersion, team: str, checkpoint_id: str) -> None:
    checkpoint = checkpoints.find(checkpoint_id)
    if checkpoint is not None:
        # So that retention does not delete it between here and our commit.
        artifacts.lock(checkpoint.manifest_id)
        checkpoint = checkpoints.find(checkpoint_id)
    if checkpoint is None or checkpoint.job.team_id != team or checkpoint.deleted_ms is not None:
        raise TrainmasterError("not_found", what=f"checkpoint {checkpoint_id} in team {team}")
    if checkpoint.damaged:
        why = f"it is damaged: {checkpoint.damaged.rstrip('.')}; register another one"
        raise TrainmasterError("request_invalid", what=f"checkpoint {checkpoint_id}", why=why)
    if why := recalls.why(Kind.CHECKPOINT, checkpoint.id):
        raise TrainmasterError("request_invalid", what=f"checkpoint {checkpoint_id}", why=why)
    version.manifest, version.job, version.metrics = checkpoint.manifest, checkpoint.job, checkpoint.metrics
    version.run = runs.run(checkpoint.job_id)
    version.state = "ready"


def _from_manifest(version: ModelVersion, team: str, manifest_id: str) -> None:
    if not artifact_queries.manifest_exists(manifest_id, team, "model"):
        raise TrainmasterError("not_found", what=f"model manifest {manifest_id} in team {team}")
    version.manifest_id = manifest_id
    version.state = "ready"


def _from_artifact(version: ModelVersion, team: str, artifact: str) -> None:
    """The version keeps these bytes: what the run logs there later is another artifact."""
    run_id, _, folder = artifact.partition("/")
    run = runs.run(run_id)
    found = run is not None and run.experiment.team_id == team
    version.manifest = (
        experiments.model_of_files(run, folder.strip("/")) if run is not None and found else None
    )
    if run is None or version.manifest is None:
        raise TrainmasterError("not_found", what=f"artifact {artifact} of a run of team {team}")
    version.run, version.job_id, version.state = run, run.job_id, "ready"


def read_source(version_id: str) -> None:
    """Hash a source once and make its manifest; the bytes stay where they are. Safe to run again."""
    version = ModelVersion.objects.select_related("model").get(id=version_id)
    if version.state != "registering":
        return
    try:
        found = describe_source(check_source(version.source), "model", _sizes(version), check=check_source)
    except TrainmasterError as error:
        ModelVersion.objects.filter(id=version_id).update(state="failed", error=error.sentence)
    else:
        with transaction.atomic():
            manifest = artifacts.register(
                found.manifest, version.model.team_id, found.source_url, found.etags
            )
            rows = ModelVersion.objects.filter(id=version_id, state="registering")
            if rows.update(state="ready", manifest=manifest):
                version.state, version.manifest = "ready", manifest
                version_ready.send(ModelVersion, version=version)
    sockets.publish(subject_of(version.model))


def _sizes(version: ModelVersion) -> Callable[[int], Sizes]:
    """How its bytes are cut: as fits the nodes that there are and their links, or as the version before was."""
    nodes, rate = len(clusters.places(())), settings.NETWORK_BYTES_PER_SECOND
    earlier = ModelVersion.objects.filter(model=version.model_id, version__lt=version.version)
    newest = earlier.exclude(manifest=None).select_related("manifest").order_by("-version").first()
    before = (
        sizes_of(newest.manifest.document) if newest is not None and newest.manifest is not None else None
    )
    return lambda total: keep(before, advise(total, nodes, rate))
