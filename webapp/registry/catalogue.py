"""What people write about models and versions: names, descriptions, tags, stages, aliases; and their deletion."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.db import IntegrityError, transaction

from platform_core.errors import IllegalTransition, TrainmasterError
from platform_core.json_values import storable
from platform_core.lineage.graph import Kind
from platform_core.registry import signatures
from platform_core.registry.stages import Stage, move
from webapp.accounts.permissions import SYSTEM, Actor, require
from webapp.base.identity import now_ms
from webapp.recalls import queries as recalls
from webapp.registry import gates
from webapp.registry.models import STAGES, Model, ModelAlias, ModelVersion
from webapp.registry.recording import record

SET_BY_PEOPLE = tuple(stage for stage in STAGES if stage != Stage.RECALLED)
MAX_NAME = 250
MAX_KEY = 250
MAX_TAG = 100_000
MAX_LICENCE = 120
MAX_TAGS = 500
MAX_DESCRIPTION = 100_000


def create_model(
    actor: Actor, team: str, name: str, *, description: str = "", tags: Mapping[str, str] | None = None
) -> Model:
    """A model without a version. Raises duplicate_name."""
    require(actor, "model.register", team)
    now = now_ms()
    try:
        with transaction.atomic():
            row = Model.objects.create(
                team_id=team,
                name=_name(name),
                description=_description(description),
                tags=_tags(tags or {}),
                created_ms=now,
                changed_ms=now,
            )
            record("ModelCreated", row, actor)
            return row
    except IntegrityError as error:
        raise TrainmasterError("duplicate_name", what="Model", name=name) from error


def rename_model(actor: Actor, model: Model, name: str) -> Model:
    """Raises duplicate_name when the team has a model of the new name."""
    try:
        with transaction.atomic():
            row = _locked_model(actor, model, "model.register")
            before = row.name
            row = _write(row, name=_name(name))
            row.versions.filter(deleted_ms=None).update(changed_ms=row.changed_ms)
            record("ModelRenamed", row, actor, before=before, after=row.name)
            return row
    except IntegrityError as error:
        raise TrainmasterError("duplicate_name", what="Model", name=name) from error


@transaction.atomic
def describe(actor: Actor, row: Model | ModelVersion, description: str) -> None:
    _write(_locked(actor, row), description=_description(description))


@transaction.atomic
def fill_card(actor: Actor, version: ModelVersion, **fields: Any) -> None:
    """Changes what people say of a version, of `licence`, `card` and `signature`; an empty signature is that of its
    exports. The next version begins with the licence and the card of the one before."""
    checked = {
        "licence": lambda text: _bounded(text, "licence", MAX_LICENCE),
        "card": lambda text: _bounded(text, "card", MAX_DESCRIPTION),
        "signature": lambda given: signatures.as_mapping(signatures.read(given)),
    }
    values = {name: checked[name](value) for name, value in fields.items()}
    if values:
        row = _write(_locked(actor, version), **values)
        record("VersionCardChanged", row.model, actor, version=row.version, fields=sorted(values))


@transaction.atomic
def set_tags(actor: Actor, row: Model | ModelVersion, tags: Mapping[str, str]) -> None:
    """Adds tags; those of the same name are replaced."""
    row = _locked(actor, row)
    row.tags = {**row.tags, **_tags(tags)}
    if len(row.tags) > MAX_TAGS:
        why = f"it would have {len(row.tags)} tags; the limit is {MAX_TAGS}"
        raise TrainmasterError("request_invalid", what=str(row), why=why)
    row.save(update_fields=["tags"])


@transaction.atomic
def delete_tags(actor: Actor, row: Model | ModelVersion, names: Iterable[str]) -> None:
    """Names that it does not have are ignored."""
    row = _locked(actor, row)
    row.tags = {name: value for name, value in row.tags.items() if name not in set(names)}
    row.save(update_fields=["tags"])


@transaction.atomic
def set_stage(
    actor: Actor, version: ModelVersion, stage: str, *, archive_others: bool = False, override: str = ""
) -> ModelVersion:
    """`archive_others` moves the versions that were in this stage to "archived".

    Raises gate_refused, and illegal_transition for a recalled version; `override` is the reason of an admin to pass
    the gate all the same. Only a recall moves a version to "recalled".
    """
    if stage not in SET_BY_PEOPLE:
        why = f"{stage[:60]!r} is none of {', '.join(SET_BY_PEOPLE)}"
        raise TrainmasterError("request_invalid", what="stage", why=why)
    model = _locked_model(actor, version.model, "model.register")
    row = _locked_version(version)
    if row.stage == Stage.RECALLED:
        why = recalls.why(Kind.MODEL, row.id) or "it was recalled"
        raise IllegalTransition(
            str(row), row.stage, f"a move to {stage}", f"{row} cannot enter {stage}: {why}"
        )
    move(str(row), Stage(row.stage), Stage(stage))
    gates.require_promotion(actor, row, stage, override)
    row = _write(row, stage=stage)
    if archive_others:
        others = model.versions.filter(stage=stage, deleted_ms=None).exclude(pk=row.pk)
        others.update(stage="archived", changed_ms=row.changed_ms)
    _write(model)
    record("VersionStageChanged", model, actor, version=row.version, stage=stage)
    return row


@transaction.atomic
def set_alias(actor: Actor, version: ModelVersion, name: str) -> None:
    """Gives the version this alias, and takes it from the version that had it."""
    if not name or len(name) > 255 or any(not (letter.isalnum() or letter in "_-") for letter in name):
        why = f"{name[:60]!r} must have 1 to 255 letters, digits, '_' or '-'"
        raise TrainmasterError("request_invalid", what="alias", why=why)
    model = _locked_model(actor, version.model, "model.register")
    row = _locked_version(version)
    if name in gates.PROVEN_ALIASES:
        gates.require_proven(row, f"be called {name}")
    ModelAlias.objects.update_or_create(model=model, name=name, defaults={"version": row})
    record("AliasSet", model, actor, alias=name, version=row.version)


@transaction.atomic
def delete_alias(actor: Actor, model: Model, name: str) -> None:
    """A name that the model does not have is no error."""
    model = _locked_model(actor, model, "model.register")
    if ModelAlias.objects.filter(model=model, name=name).delete()[0]:
        record("AliasDeleted", model, actor, alias=name)


@transaction.atomic
def demote(version_ids: Collection[str], cause: str) -> list[str]:
    """Moves versions to the stage "recalled", and takes the aliases by which others find what they may use.

    Returns a sentence for each that was in staging or production, and for each alias.
    """
    told = []
    rows = ModelVersion.objects.select_for_update(of=("self",)).filter(
        id__in=list(version_ids), deleted_ms=None
    )
    for row in rows.select_related("model").order_by("id"):
        if row.stage in ("staging", "production"):
            told.append(f"{row} left {row.stage}")
        if row.stage != Stage.RECALLED:
            _move(row, Stage.RECALLED, cause)
        for alias in row.aliases.filter(name__in=gates.PROVEN_ALIASES).order_by("name"):
            told.append(f"{row} is not called {alias.name} any more")
            alias.delete()
            record("AliasDeleted", row.model, SYSTEM, alias=alias.name, reason=cause)
    return told


@transaction.atomic
def restore(version_ids: Collection[str], cause: str) -> None:
    """Makes recalled versions candidates again where no other recall reaches them; their gate proves them anew."""
    rows = ModelVersion.objects.select_for_update(of=("self",)).filter(
        id__in=list(version_ids), stage=Stage.RECALLED, deleted_ms=None
    )
    for row in rows.exclude(id__in=recalls.marked(Kind.MODEL)).select_related("model").order_by("id"):
        _move(row, Stage.CANDIDATE, cause)


def _move(row: ModelVersion, stage: Stage, cause: str) -> None:
    _write(row, stage=move(str(row), Stage(row.stage), stage).value)
    record("VersionStageChanged", row.model, SYSTEM, version=row.version, stage=stage.value, reason=cause)


@transaction.atomic
def delete_version(actor: Actor, version: ModelVersion) -> None:
    """Its number is not given again. Deployments that used it keep it."""
    model = _locked_model(actor, version.model, "model.view")
    row = _locked_version(version)
    require(actor, "model.delete", model.team_id, owner=row.created_by.username)
    row.aliases.all().delete()
    _write(row, deleted_ms=now_ms())
    _write(model)
    record("VersionDeleted", model, actor, version=row.version)


@transaction.atomic
def delete_model(actor: Actor, model: Model) -> None:
    """With its versions. The name is free again; deployments that used a version keep it.

    A gate goes with its model, so who may not change the gate may not delete the model either.
    """
    row = _locked_model(actor, model, "model.register")
    if row.gate:
        require(actor, "model.gate", row.team_id)
    makers = set(row.versions.filter(deleted_ms=None).values_list("created_by__username", flat=True))
    if makers - {actor.username}:
        require(actor, "model.delete", row.team_id)
    row.aliases.all().delete()
    _write(row, deleted_ms=now_ms())
    record("ModelDeleted", row, actor)


def _locked(actor: Actor, row: Model | ModelVersion) -> Any:
    if isinstance(row, Model):
        return _locked_model(actor, row, "model.register")
    _locked_model(actor, row.model, "model.register")
    return _locked_version(row)


def _locked_model(actor: Actor, model: Model, action: str) -> Model:
    row = Model.objects.select_for_update().filter(pk=model.pk, deleted_ms=None).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"model {model.name}")
    require(actor, action, row.team_id, what=f"model {model.name}")
    return row


def _locked_version(version: ModelVersion) -> ModelVersion:
    """Its model is locked."""
    rows = ModelVersion.objects.select_related("created_by", "model")
    row = rows.filter(pk=version.pk, deleted_ms=None).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"version {version.version} of {version.model.name}")
    return row


def _write(row: Any, **values: Any) -> Any:
    for name, value in values.items():
        setattr(row, name, value)
    row.changed_ms = now_ms()
    row.save(update_fields=[*values, "changed_ms"])
    return row


def _name(name: str) -> str:
    """Any text without '/' and ':', which stand in addresses of models."""
    if (
        not name.strip()
        or len(name) > MAX_NAME
        or {"/", ":"} & set(name)
        or not name.isprintable()
        or name in (".", "..")
    ):
        why = f"{name[:60]!r} must have 1 to {MAX_NAME} printable characters without '/' and ':'"
        raise TrainmasterError("request_invalid", what="name", why=why)
    return name


def _description(text: str) -> str:
    return _bounded(text, "description", MAX_DESCRIPTION)


def _tags(given: Mapping[str, str]) -> dict[str, str]:
    return {
        _bounded(name, "name of a tag", MAX_KEY): _bounded(value, f"tag {name:.60}", MAX_TAG)
        for name, value in given.items()
    }


def _bounded(text: str, what: str, limit: int) -> str:
    if len(text) > limit:
        why = f"it has {len(text):,} characters; the limit is {limit:,}"
        raise TrainmasterError("request_invalid", what=what, why=why)
    return str(storable(text))
