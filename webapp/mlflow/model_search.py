"""Searches of registered models and their versions, as statements of the database."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import BooleanField, F, FloatField, Func, Q, QuerySet, TextField, Value
from django.db.models.expressions import Combinable
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Lower

from webapp.mlflow.filters import Clause, ordering

PROMPT_TAG = "mlflow.prompt.is_prompt"
_LOOKUPS = {"=": "exact", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}


def matching(
    rows: QuerySet[Any],
    clauses: Sequence[Clause],
    attributes: Mapping[str, Combinable],
    *,
    model_tags: str = "tags",
) -> QuerySet[Any]:
    """The rows that all clauses match. Prompts are registered models with a tag, and are left out unless a clause asks
    for them."""
    asked = [clause for clause in clauses if (clause.kind, clause.key) == ("tags", PROMPT_TAG)]
    prompts = any((c.operator, str(c.value).lower()) in (("=", "true"), ("!=", "false")) for c in asked)
    is_prompt = Lower(Coalesce(KeyTextTransform(PROMPT_TAG, model_tags), Value("false", TextField())))
    rows = rows.alias(is_prompt=is_prompt).filter(is_prompt="true" if prompts else "false")
    for number, clause in enumerate(clause for clause in clauses if clause not in asked):
        name = f"compared_{number}"
        compared = (
            attributes[clause.key] if clause.kind == "attributes" else KeyTextTransform(clause.key, "tags")
        )
        rows = rows.alias(**{name: compared}).filter(_condition(clause, name))
    return rows


def number(column: str) -> Combinable:
    """A whole number that may be compared with a fraction."""
    return Cast(column, FloatField())


def text(column: str) -> Combinable:
    """A column whose null is MLflow's empty text."""
    return Coalesce(Cast(column, TextField()), Value("", TextField()))


def _condition(clause: Clause, name: str) -> Q:
    """A row without the value matches IS NULL alone."""
    there = Q(**{f"{name}__isnull": False})
    match clause.operator:
        case "IS NULL":
            return ~there
        case "IS NOT NULL":
            return there
        case "!=":
            return there & ~Q(**{name: clause.value})
        case "IN" | "NOT IN":
            among = Q(**{f"{name}__in": list(clause.value)})
            return among if clause.operator == "IN" else there & ~among
        case "LIKE" | "ILIKE":
            pattern = Func(
                F(name),
                Value(clause.value),
                template="(%(expressions)s ESCAPE '')",
                arg_joiner=f" {clause.operator} ",
                output_field=BooleanField(),
            )
            return Q(pattern)
    return Q(**{f"{name}__{_LOOKUPS[clause.operator]}": clause.value})


def ordered(
    rows: QuerySet[Any], wanted: Sequence[str], columns: Mapping[str, str], default: Sequence[str]
) -> QuerySet[Any]:
    """`columns` are the fields behind the names that a client may order by."""
    keys = ordering(wanted, columns, default)
    return rows.order_by(*(f"-{columns[name]}" if down else columns[name] for name, down in keys.items()))
