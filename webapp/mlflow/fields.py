"""The fields of a request, read as MLflow's server reads its protocol messages.

A text must be text; a whole number may come as text; null is as if not sent; unknown fields are ignored. The
sentences of refusals are MLflow's, because clients and their tests know them.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from webapp.mlflow.errors import invalid

HINT = " See the API docs for more information about request parameters."
INT64 = 1 << 63
MAX_NESTING = 40


class Wrong(Exception):
    """The value has another type than its field."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    read: Callable[[Any], Any]
    required: bool = False
    repeated: bool = False
    default: Any = None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Wrong
    return storable(value)


def storable(value: str) -> str:
    """Raises for characters that no database keeps."""
    if "\0" in value:
        raise invalid(
            f"Invalid value {json.dumps(value)[:200]}: it has a character (NUL) that cannot be kept."
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid("Invalid value: it has half a surrogate pair, which is no character.") from None
    return value


def whole_number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Wrong
    try:
        number = int(value) if not isinstance(value, float) or value.is_integer() else None
    except (ValueError, OverflowError):
        raise Wrong from None
    if number is None or not -INT64 <= number < INT64:
        raise Wrong
    return number


def real_number(value: Any) -> float:
    """NaN and infinities come as text, as the JSON of protocol messages has them."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Wrong
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise Wrong from None


def _flag(value: Any) -> bool:
    if isinstance(value, str):  # of a query
        if value.lower() not in ("true", "false"):
            raise invalid(f"Invalid boolean value: {value}, must be 'true' or 'false'.")
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise Wrong
    return value


def text(name: str, *, required: bool = False, default: str | None = None) -> Field:
    return Field(name, _text, required, default=default)


def whole(name: str, *, required: bool = False, default: int | None = None, most: int = INT64) -> Field:
    def read(value: Any) -> int:
        number = whole_number(value)
        if number > most:
            raise Wrong
        return number

    return Field(name, read, required, default=default)


def real(name: str, *, required: bool = False) -> Field:
    return Field(name, real_number, required)


def flag(name: str) -> Field:
    return Field(name, _flag, default=False)


def texts(name: str, *, required: bool = False) -> Field:
    return Field(name, _text, required, repeated=True)


def choice(
    name: str, numbers: Mapping[str, int], *, required: bool = False, default: str | None = None
) -> Field:
    """A value of an enumeration, by its name or by its number. The value read is the name."""
    names = {number: key for key, number in numbers.items()}

    def read(value: Any) -> str:
        if isinstance(value, str) and value in numbers:
            return value
        number = whole_number(value)
        if number not in names:
            raise Wrong
        return names[number]

    return Field(name, read, required, default=default)


def objects(name: str, *fields: Field, required: bool = False) -> Field:
    """A list of messages."""
    return Field(name, lambda value: _message(value, fields), required, repeated=True)


def message(name: str, *fields: Field, required: bool = False) -> Field:
    return Field(name, lambda value: _message(value, fields), required)


def pairs(name: str) -> Field:
    """A list of {key, value}: tags, parameters."""
    return objects(name, text("key"), text("value"))


def _message(value: Any, fields: Sequence[Field]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Wrong
    return parsed(value, fields)


def parsed(body: Mapping[str, Any], fields: Sequence[Field]) -> dict[str, Any]:
    """The value of each field, its default where none was sent. Raises INVALID_PARAMETER_VALUE."""
    values: dict[str, Any] = {}
    for field in fields:
        given = body.get(field.name)
        if given is None and "_" in field.name:
            given = body.get(_camel(field.name))
        if field.required and (given is None or given == ""):
            raise invalid(f"Missing value for required parameter '{field.name}'.{HINT}")
        if given is None:
            values[field.name] = [] if field.repeated else field.default
            continue
        try:
            if field.repeated:
                if not isinstance(given, list):
                    raise Wrong
                values[field.name] = [field.read(item) for item in given]
            else:
                values[field.name] = field.read(given)
        except Wrong:
            raise invalid(_refusal(field.name, given)) from None
    return values


def _refusal(name: str, value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        value = str(value)
    shown = json.dumps(value, sort_keys=True, separators=(",", ":"))[:1000]
    hint = f" Hint: Value was of type '{type(value).__name__}'."
    return f"Invalid value {shown} for parameter '{name}' supplied: {hint}{HINT}"


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.title() for word in rest)


def body_of(request: HttpRequest) -> dict[str, Any]:
    """The JSON object of a request; {} for a body that is not JSON, as MLflow reads it."""
    if request.method in ("POST", "PUT"):
        content_type = request.headers.get("Content-Type")
        if not content_type:
            raise invalid("Bad Request. Content-Type header is missing.")
        if content_type.split(";")[0].strip() != "application/json":
            raise invalid("Bad Request. Content-Type must be one of ['application/json'].")
    return decoded(request.body)


def decoded(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content) if content else {}
        if isinstance(body, str):  # older clients encode twice
            body = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise invalid(f"The body must be a JSON object, not a {type(body).__name__}.")
    return body


def query_of(request: HttpRequest, fields: Sequence[Field]) -> dict[str, Any]:
    """The query string as the body of a message: a repeated field is a list however often it comes."""
    sent = request.GET
    return {
        field.name: sent.getlist(field.name) if field.repeated else sent[field.name]
        for field in fields
        if field.name in sent
    }
