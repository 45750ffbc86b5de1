"""What MLflow allows as names, values and numbers of things, in MLflow's sentences."""

import json
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping

from webapp.mlflow.errors import MlflowError, invalid

MAX_KEY = 250
MAX_PARAMETER = 6_000
MAX_TAG = 8_000
MAX_INPUT_TAG_KEY, MAX_INPUT_TAG = 255, 500
MAX_EXPERIMENT_TAG = 20_000
MAX_EXPERIMENT_NAME = 500
MAX_MODEL_TAG = 100_000
MAX_METRICS = 1_000
MAX_PARAMETERS = 100
MAX_TAGS = 100
MAX_BATCH = 1_000
MAX_BATCH_BYTES = 1_000_000
MAX_ALIAS = 255

_NAME = re.compile(r"[/\w.\- :]*")
_RUN_ID = re.compile(r"[a-zA-Z0-9][\w\-]{0,255}")
_ALIAS = re.compile(r"[\w\-]*")
_VERSION_ALIAS = re.compile(r"[vV]\d+")
_CHARACTERS = (
    "Names may only contain alphanumerics, underscores (_), dashes (-), periods (.), spaces ( ), colon(:) and "
    "slashes (/)."
)


def refused(path: str, value: object, why: str = "") -> MlflowError:
    shown = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return invalid(f"Invalid value {shown} for parameter '{path}' supplied" + (f": {why}" if why else "."))


def lacking(path: str) -> MlflowError:
    hint = "See the API docs for more information about request parameters."
    return invalid(f"Missing value for required parameter '{path}'. {hint}")


def key(name: str | None, path: str) -> str:
    """The name of a metric, a parameter or a tag."""
    if name is None:
        raise invalid(f"Missing value for required parameter '{path}'.")
    if not _NAME.fullmatch(name):
        raise refused(path, name, _CHARACTERS)
    normal = posixpath.normpath(name)
    if normal != name or normal == "." or normal.startswith(("..", "/")):
        why = (
            f"Names may be treated as files in certain cases, and must not resolve to other names when treated as "
            f"such. This name would resolve to {normal!r}"
        )
        raise refused(path, name, why)
    return name


def length(what: str, value: str | None, limit: int) -> None:
    if value is not None and len(value) > limit:
        raise invalid(f"'{what}' exceeds the maximum length of {limit} characters")


def cut(value: str | None, limit: int) -> str:
    """A value that MLflow truncates rather than refuses."""
    return (value or "")[:limit]


def metric_key(name: str | None, path: str = "name") -> str:
    name = key(name, path)
    length("Metric name", name, MAX_KEY)
    return name


def parameter(name: str | None, value: str | None, path: str = "key") -> tuple[str, str]:
    name = key(name, path)
    length("Param key", name, MAX_KEY)
    return name, cut(value, MAX_PARAMETER)


def run_tag(name: str | None, value: str | None, path: str = "") -> tuple[str, str]:
    where = f"{path}.key" if path else "key"
    name = key(name, where)
    length(where, name, MAX_KEY)
    return name, cut(value, MAX_TAG)


def stored_tag(name: str | None, value: str | None, limit: int) -> tuple[str, str]:
    """A tag of an experiment, a registered model or a version: too long is refused."""
    name = key(name, "key")
    length("key", name, MAX_KEY)
    length("value", value, limit)
    return name, value or ""


def stored_tags(given: Iterable[Mapping[str, str | None]], limit: int) -> dict[str, str]:
    return dict(stored_tag(pair["key"] or "", pair["value"], limit) for pair in given)


def run_id(value: str) -> str:
    if not _RUN_ID.fullmatch(value):
        raise refused("run_id", value)
    return value


def experiment_name(name: str | None) -> str:
    if not name:
        raise invalid(f"Invalid experiment name: '{name}'")
    length("name", name, MAX_EXPERIMENT_NAME)
    return name


def batch(metrics: Collection[object], parameters: Collection[object], tags: Collection[object]) -> None:
    total = len(metrics) + len(parameters) + len(tags)
    for kind, limit, count in (
        ("metrics", MAX_METRICS, len(metrics)),
        ("params", MAX_PARAMETERS, len(parameters)),
        ("tags", MAX_TAGS, len(tags)),
        ("metrics, params, and tags", MAX_BATCH, total),
    ):
        if count > limit:
            raise invalid(
                f"A batch logging request can contain at most {limit} {kind}. Got {count} {kind}. Please split up "
                f"{kind} across multiple requests and try again."
            )


def model_name(name: str | None, path: str = "name") -> str:
    if name is None or not name.strip():
        raise invalid(f"Missing value for required parameter '{path}'.")
    if "/" in name or ":" in name:
        raise invalid(f"Invalid model name '{name}'. Names cannot contain '/' or ':'.")
    if posixpath.normpath(name) != name or name in (".", ".."):
        raise refused(path, name)
    length(path, name, MAX_KEY)
    return name


def alias(name: str | None, *, new: bool = False) -> str:
    if not name:
        raise invalid("Registered model alias name cannot be empty.")
    if not _ALIAS.fullmatch(name):
        raise invalid(
            f"Invalid alias name: '{name}'. Names may only contain alphanumerics, underscores (_), and dashes (-)."
        )
    length("Registered model alias name", name, MAX_ALIAS)
    if new and name.lower() == "latest":
        raise invalid("'latest' alias name (case insensitive) is reserved.")
    if new and _VERSION_ALIAS.fullmatch(name):
        raise invalid(f"Version alias name '{name}' is reserved.")
    return name


def version(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise invalid(f"Parameter 'version' must be an integer, got '{text}'.") from None
    if abs(number) >= 1 << 31:
        raise invalid(f"Parameter 'version' must be an integer of at most 32 bits, got '{text[:60]}'.")
    return number
