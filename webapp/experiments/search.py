"""Filters and orders of runs in SQL. platform_core.experiments.search decides what they mean: tests compare the two."""

import base64
import binascii
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.db.models import BooleanField, F, FloatField, Q, QuerySet, TextField, Value
from django.db.models.expressions import Combinable, OrderBy, RawSQL
from django.db.models.functions import NullIf

from platform_core.errors import TrainmasterError
from platform_core.experiments.search import (
    OF_METRIC,
    AllOf,
    AnyOf,
    Comparison,
    Field,
    FieldKind,
    Filter,
    Operator,
    Order,
    OrderKey,
    ValueKind,
    fields_of,
)
from platform_core.experiments.search.filters import INEQUALITIES, PATTERNS
from platform_core.experiments.search.matching import NUMERIC
from platform_core.json_values import storable
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics

_OWNER = "(SELECT username FROM accounts_user WHERE accounts_user.id = experiments_run.owner_id)"
_COLUMNS = {
    "name": "experiments_run.name",
    "run_id": "experiments_run.id",
    "state": "experiments_run.state",
    "owner": _OWNER,
    "user": f"coalesce(nullif(experiments_run.lineage ->> 'user', ''), {_OWNER})",
    "group": "nullif(experiments_run.\"group\", '')",
    "parent": "experiments_run.parent_id",
    "source": "experiments_run.source",
    "artifact_uri": "concat('mlflow-artifacts:/', experiment_id, '/', experiments_run.id, '/artifacts')",
    "start_time": "experiments_run.started_ms",
    "end_time": "experiments_run.ended_ms",
    "created": "experiments_run.created_ms",
    "duration": "((experiments_run.ended_ms - experiments_run.started_ms)::float8 / 1000)",
    "archived": "(experiments_run.archived_ms IS NOT NULL)",
    "gpu_type": "nullif(experiments_run.gpu_type, '')",
    **{
        name: f"experiments_run.{name}"
        for name in ("mfu", "utilisation", "tokens_per_second", "step_seconds", "data_wait", "memory_bytes")
    },
    "gpu_hours": "(experiments_run.gpu_ms::float8 / 3600000)",
    "cost": "(experiments_run.micro_dollars::float8 / 1000000)",
}
_TAGS_OF_COLUMNS = {
    "mlflow.runName": "experiments_run.name",
    "mlflow.note.content": "nullif(experiments_run.description, '')",
    "mlflow.parentRunId": "experiments_run.parent_id",
}
_STATISTICS = {FieldKind.METRIC: "last", FieldKind.LOWEST: "min", FieldKind.HIGHEST: "max"}  # of a series
_IS_NUMERIC = f"~ '^{NUMERIC.pattern}$'"
_DATASETS = "experiments_rundataset AS dataset WHERE dataset.run_id = experiments_run.id"
_OF_DATASETS = {
    "name": "dataset.name",
    "digest": "dataset.digest",
    "context": "(dataset.tags ->> 'mlflow.data.context')",
}
_MEMBERSHIP = {
    Operator.EQUAL: "= ANY",
    Operator.IN: "= ANY",
    Operator.UNEQUAL: "<> ALL",
    Operator.NOT_IN: "<> ALL",
}
Sql = tuple[str, list[Any]]


def matching(rows: QuerySet[Run], filter: Filter) -> QuerySet[Run]:
    """Those of the runs that match."""
    of_metrics = sorted({field for field in fields_of(filter) if field.kind in OF_METRIC}, key=str)
    names = {field: f"metric_{place}" for place, field in enumerate(of_metrics)}
    for field, name in names.items():
        rows = _with_metric(rows, field, name)
    return rows.filter(_condition(filter, names)) if filter != AllOf() else rows


def _with_metric(rows: QuerySet[Run], field: Field, name: str) -> QuerySet[Run]:
    """Adds a value of a metric, and the same as `name`_known without NaN, which only differs: PostgreSQL holds it
    for greater than any number."""
    rows = metrics.with_metric(rows, field.name, field=_STATISTICS[field.kind], name=name)
    return rows.alias(**{f"{name}_known": NullIf(F(name), Value(math.nan))})


def _condition(filter: Filter, names: dict[Field, str]) -> Q:
    match filter:
        case AllOf(parts):
            return Q(*(_condition(part, names) for part in parts))
        case AnyOf(parts):
            return Q(*(_condition(part, names) for part in parts), _connector=Q.OR)
    if filter.field.kind in OF_METRIC:
        return _of_metric(filter, names[filter.field])
    sql, parameters = _comparison(filter)
    return Q(RawSQL(sql, parameters, output_field=BooleanField()))  # noqa: S611 - values travel as parameters


def _of_metric(comparison: Comparison, name: str) -> Q:
    known = f"{name}_known"
    match comparison.operator:
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            return Q(**{f"{name}__isnull": comparison.operator is Operator.IS_NULL})
        case Operator.EQUAL | Operator.IN:
            return Q(**{f"{known}__in": comparison.values})
        case Operator.UNEQUAL | Operator.NOT_IN:
            return Q(
                *(Q(**{f"{name}__lt": value}) | Q(**{f"{name}__gt": value}) for value in comparison.values)
            )
    lookup = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}[comparison.operator]
    return Q(**{f"{known}__{lookup}": comparison.values[0]})


def _comparison(comparison: Comparison) -> Sql:
    name = comparison.field.name
    match comparison.field.kind:
        case FieldKind.PARAMETER:
            return _of_parameter(comparison)
        case FieldKind.TAG:
            value, parameters = _tag(name)
            return _plain(value, parameters, comparison)
        case FieldKind.DATASET:
            return _of_datasets(comparison)
    return _plain(_COLUMNS[name], [], comparison)


def _tag(name: str) -> Sql:
    """Its value. What MLflow keeps as tags and we as columns counts as the columns have it."""
    value = "(experiments_run.tags ->> %s)"
    if name in _TAGS_OF_COLUMNS:
        return f"coalesce({_TAGS_OF_COLUMNS[name]}, {value})", [name]
    return value, [name]


def _plain(value: str, parameters: list[Any], comparison: Comparison) -> Sql:
    """Of a value with one type."""
    operator = comparison.operator
    if operator in (Operator.IS_NULL, Operator.IS_NOT_NULL):
        return f"{value} {operator}", parameters
    if operator in PATTERNS:
        return _like(value, parameters, comparison)
    kind = {ValueKind.TEXT: "text", ValueKind.ANY: "text", ValueKind.FLAG: "boolean"}.get(
        comparison.field.value_kind, "float8"
    )
    if operator in _MEMBERSHIP:
        return f"{value} {_MEMBERSHIP[operator]} (%s::{kind}[])", [*parameters, list(comparison.values)]
    return f"{value} {operator} %s::{kind}", [*parameters, comparison.values[0]]


def _like(value: str, parameters: list[Any], comparison: Comparison) -> Sql:
    pattern = str(comparison.values[0])
    if comparison.operator is Operator.ILIKE:
        return f"lower({value}) LIKE lower(%s) ESCAPE ''", [*parameters, pattern]
    return f"{value} LIKE %s ESCAPE ''", [*parameters, pattern]


def _of_datasets(comparison: Comparison) -> Sql:
    """One dataset of the run is enough."""
    value = _OF_DATASETS[comparison.field.name]
    if comparison.operator is Operator.IS_NULL:
        return f"NOT EXISTS (SELECT FROM {_DATASETS} AND {value} IS NOT NULL)", []
    condition, parameters = _plain(value, [], comparison)
    return f"EXISTS (SELECT FROM {_DATASETS} AND {condition})", parameters


def _of_parameter(comparison: Comparison) -> Sql:
    """A parameter is text, a number or a flag, run by run; see platform_core.experiments.search.matching."""
    operator, key = comparison.operator, comparison.field.name
    text = "(experiments_run.parameters ->> %s)"
    kind = "jsonb_typeof(experiments_run.parameters -> %s)"
    if operator in (Operator.IS_NULL, Operator.IS_NOT_NULL):
        return f"{text} {operator}", [key]
    if operator in PATTERNS:
        condition, parameters = _like(text, [key], comparison)
        return f"({kind} = 'string' AND {condition})", [key, *parameters]
    if operator in INEQUALITIES:
        number = f"{text}::float8 {operator} %s::float8"
        cases = (
            f"WHEN 'number' THEN {number} WHEN 'string' THEN CASE WHEN {text} {_IS_NUMERIC} THEN {number} END"
        )
        limit = comparison.values[0]
        return f"CASE {kind} {cases} END", [key, key, limit, key, key, limit]
    return _membership(key, text, kind, _MEMBERSHIP[operator], comparison.values)


def _membership(key: str, text: str, kind: str, test: str, values: Sequence[Any]) -> Sql:
    """One of several values, or none of them: with none of them, each must be comparable."""
    every = test == "<> ALL"
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if not isinstance(value, str)]
    of_texts = [float(value) for value in texts if NUMERIC.fullmatch(value)]
    as_text, as_number = f"{text} {test} (%s::text[])", f"{text}::float8 {test} (%s::float8[])"
    of_string, string_parameters = as_text, [key, texts]
    if numbers:
        join = "AND" if every else "OR"
        guarded = f"CASE WHEN {text} {_IS_NUMERIC} THEN {as_number} ELSE FALSE END"
        of_string, string_parameters = f"({as_text} {join} {guarded})", [key, texts, key, key, numbers]
    of_flag, flag_parameters = as_text, [key, [value.lower() for value in texts]]
    if every and numbers:
        of_flag, flag_parameters = "FALSE", []
    cases = f"WHEN 'string' THEN {of_string} WHEN 'boolean' THEN {of_flag} WHEN 'number' THEN {as_number}"
    parameters = [key, *string_parameters, *flag_parameters, key, [*of_texts, *numbers]]
    return f"CASE {kind} {cases} ELSE FALSE END", parameters


@dataclass(frozen=True, slots=True)
class _SortKey:
    name: str  # of the annotation
    value: Combinable
    descending: bool
    number: bool
    nullable: bool = True

    @property
    def order(self) -> OrderBy:
        nulls_last = (
            True if self.nullable else None
        )  # said of a column without nulls, it would keep the index away
        field = F(self.name)
        return field.desc(nulls_last=nulls_last) if self.descending else field.asc(nulls_last=nulls_last)


# In the order of the index newest_runs.
_TIES = (
    _SortKey("key_created", F("created_ms"), descending=True, number=True, nullable=False),
    _SortKey("key_id", F("id"), descending=True, number=False, nullable=False),
)


def page(rows: QuerySet[Run], order: Order, limit: int, cursor: str) -> tuple[list[str], str | None]:
    """The ids of one page, and the cursor of the next one, None at the end.

    Ties go by creation, the newest first, then by id. A cursor names the last run with its values: runs that are made
    meanwhile move nothing, a run whose value changes may be seen twice or not at all.
    """
    for place, key in enumerate(order):
        if key.field.kind in OF_METRIC:
            rows = _with_metric(rows, key.field, f"sorted_{place}")
    keys = [part for place, key in enumerate(order) for part in _sort_keys(place, key)] + list(_TIES)
    rows = rows.annotate(**{key.name: key.value for key in keys})
    digest = sha256(repr(order).encode()).hexdigest()[:8]
    if cursor:
        rows = rows.filter(_after(keys, _decoded(cursor, digest, keys)))
    found = list(
        rows.order_by(*(key.order for key in keys)).values_list(*(key.name for key in keys))[: limit + 1]
    )
    ids = [values[-1] for values in found[:limit]]
    return ids, _encoded(digest, found[limit - 1]) if len(found) > limit else None


def _sort_keys(place: int, key: OrderKey) -> list[_SortKey]:
    """Parameters go by number, then by text."""
    name, field = f"key_{place}", key.field
    if field.kind in OF_METRIC:
        return [_SortKey(name, F(f"sorted_{place}_known"), key.descending, number=True)]
    if field.kind is FieldKind.PARAMETER:
        text = "(experiments_run.parameters ->> %s)"
        kind = "jsonb_typeof(experiments_run.parameters -> %s)"
        numeric = f"CASE WHEN {kind} = 'number' OR {text} {_IS_NUMERIC} THEN {text}::float8 END"
        return [
            _SortKey(
                f"{name}_number", _raw(numeric, [field.name] * 3, FloatField()), key.descending, number=True
            ),
            _SortKey(name, _raw(text, [field.name], TextField()), key.descending, number=False),
        ]
    if field.kind is FieldKind.TAG:
        tag, parameters = _tag(field.name)
        return [_SortKey(name, _raw(tag, parameters, TextField()), key.descending, number=False)]
    if field.kind is FieldKind.DATASET:
        first = f"(SELECT min({_OF_DATASETS[field.name]}) FROM {_DATASETS})"  # noqa: S608 - our own text
        return [_SortKey(name, _raw(first, [], TextField()), key.descending, number=False)]
    number = field.value_kind is not ValueKind.TEXT
    column = f"{_COLUMNS[field.name]}::int" if field.value_kind is ValueKind.FLAG else _COLUMNS[field.name]
    value = _raw(column, [], FloatField() if number else TextField())
    return [_SortKey(name, value, key.descending, number)]


def _raw(sql: str, parameters: list[Any], output: Any) -> RawSQL:
    return RawSQL(sql, parameters, output_field=output)  # noqa: S611 - values travel as parameters


def _after(keys: Sequence[_SortKey], values: Sequence[Any]) -> Q:
    """What comes after the run with these values; a missing value is the last of its field."""
    after, same = Q(pk__in=[]), Q()
    for key, value in zip(keys, values, strict=True):
        if value is None:
            same &= Q(**{f"{key.name}__isnull": True})
            continue
        lookup = "lt" if key.descending else "gt"
        beyond = Q(**{f"{key.name}__{lookup}": value})
        if key.nullable:
            beyond |= Q(**{f"{key.name}__isnull": True})
        after |= same & beyond
        same &= Q(**{key.name: value})
    return after


def _encoded(digest: str, values: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps([digest, *values]).encode()).decode().rstrip("=")


def _decoded(cursor: str, digest: str, keys: Sequence[_SortKey]) -> list[Any]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        given, *values = json.loads(text)
        fitting = len(values) == len(keys) and all(map(_fits, keys, values))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        fitting, given, values = False, "", []
    if not fitting or given != digest:
        why = "it belongs to another order, or was cut; leave it out to begin again"
        raise TrainmasterError("request_invalid", what="cursor", why=why)
    return values


def _fits(key: _SortKey, value: Any) -> bool:
    if key.number:
        fits = isinstance(value, float) or (type(value) is int and abs(value) < 1 << 63)
        return fits or (value is None and key.nullable)
    return (value is None and key.nullable) or (isinstance(value, str) and value == storable(value))
