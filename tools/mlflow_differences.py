"""What may differ between an answer of this server and MLflow's, and why: the tests and the reference page read it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Answer = tuple[int, Any]  # status and body


@dataclass(frozen=True, slots=True)
class Difference:
    """Of requests that match `label`: of the fields at `place` whose value there `value` accepts."""

    reason: str
    label: str = ".*"
    place: str = ".*"
    answers: Callable[[Answer, Answer], bool] = lambda theirs, ours: True
    value: Callable[[Any], bool] = lambda theirs: True


def _is_broken(theirs: Answer, ours: Answer) -> bool:
    return theirs[0] >= 500 and 400 <= ours[0] < 500


def _message(answer: Answer) -> str:
    return str(answer[1].get("message", "")) if isinstance(answer[1], dict) else ""


def _is_of_the_wrong_type(theirs: Answer, ours: Answer) -> bool:
    return ours[0] == 400 and bool(
        re.search(r"(?:for parameter|parameter) '.*' (?:supplied|must)", _message(ours))
    )


def _shows_its_database(theirs: Answer, ours: Answer) -> bool:
    return "sqlite3." in _message(theirs) and 400 <= ours[0] < 500


DIFFERENCES = (
    Difference(
        "Where MLflow breaks with a 5xx, the request is refused with a sentence and 4xx.", answers=_is_broken
    ),
    Difference(
        "A field of the wrong type is refused with 400; MLflow ignores or converts some, and words refusals otherwise.",
        answers=_is_of_the_wrong_type,
    ),
    Difference("The message does not show a statement of the database.", answers=_shows_its_database),
    Difference("`workspace` is the team.", place=r".*\bworkspace"),
    Difference("A run without a user has that of the token.", place=r".*(?:user_id|userId)"),
    Difference("Experiments of several teams share one sequence of numbers.", place=r"body\.experiment_id"),
    Difference("A name of blanks alone is refused.", label=r"POST experiments/create \{\"name\": \" \"\}"),
    Difference(
        "Artifacts lie in the store of the platform: an `artifact_location` elsewhere is refused.",
        label=r"POST experiments/create .*artifact_location.*",
    ),
    Difference(
        "A tag of an experiment has up to 8,000 characters; MLflow takes 20,000.",
        label=r"POST experiments/set-experiment-tag .*~v\*20000~.*",
    ),
    Difference(
        "Infinities are kept; MLflow keeps the greatest number of 64 bits.",
        value=lambda theirs: isinstance(theirs, float) and abs(theirs) > 1e308,
    ),
    Difference(
        "A page token or a number of results that no server hands out is refused, or gives nothing.",
        label=r".*(?:page_token|\"max_results\": -1).*",
    ),
    Difference("A field of the wrong type is refused with 400.", label=r'.*"timestamp": "".*'),
    Difference(
        "What was refused for its type is not among the values of the run.", place=r"body\.run\.data\.metrics"
    ),
    Difference(
        "A run that names no experiment belongs to the team's Default.",
        label=r"POST runs/create .*",
        answers=lambda theirs, ours: "sqlite3." in _message(theirs) and ours[0] == 200,
    ),
    Difference("A run whose start is not given starts now.", place=r".*start_time", value=lambda v: v == 0),
    Difference(
        "Names and values of runs are cut at 250 and 8,000 characters, also where MLflow's limits are not asked.",
        value=lambda v: isinstance(v, str) and re.fullmatch(r"~[nv]\*[0-9]+~", v) is not None,
    ),
    Difference("Tags of a new run follow the rules of set-tag.", label=r"POST runs/create .*tags.*"),
    Difference("A run that goes on has no end.", place=r"body\.run_info\.end_time"),
    Difference(
        "A run of a deleted experiment is restored with it, not before.", label=r"POST runs/restore .*"
    ),
    Difference("The record of a model is kept as it was sent.", place=r"body\.run\.data\.tags\[6\]\.value"),
    Difference(
        "The lacking fields of a model's record come in another order.", label=r"POST runs/log-model .*"
    ),
    Difference("`/version` is plain text.", label="GET /version"),
    Difference("A stored file is answered with an empty object.", label=r"PUT /api/2\.0/mlflow-artifacts/.*"),
    Difference("Files are sent as bytes, whatever their name says.", place=r"body\.type"),
    Difference(
        "Why a path is not valid, or which file is not there, is worded otherwise.",
        place=r"body\.message",
        value=lambda v: isinstance(v, str) and v.startswith(("Invalid path", "No such artifact")),
    ),
    Difference(
        "The history of several runs is answered below `/api` too.", label=r"GET metrics/get-history-bulk .*"
    ),
)


def reason(label: str, place: str, theirs: Answer, ours: Answer, value: Any) -> str:
    """Why the value at `place` may differ; "" for one that may not."""
    return next(
        (
            known.reason
            for known in DIFFERENCES
            if re.fullmatch(known.label, label, re.DOTALL)
            and re.fullmatch(known.place, place)
            and known.answers(theirs, ours)
            and known.value(value)
        ),
        "",
    )


def lines() -> Iterator[str]:
    for known in DIFFERENCES:
        yield f"- {known.reason}"
