"""A retraining cycle as the steps of a circle: what was done, what is under way, and what comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from platform_core.retraining.cycle import SUCCEEDED, CycleState
from webapp.retraining.models import Cycle

S = CycleState
TRIGGERS = {"drift": "drift", "age": "age", "decay": "decay", "person": "asked for"}
# The states in which a step is under way; those after it have begun once it is over.
STEPS: tuple[tuple[str, frozenset[CycleState]], ...] = (
    ("Trigger", frozenset()),
    ("Training job", frozenset({S.REQUESTED, S.SUBMITTING, S.TRAINING})),
    ("Version", frozenset()),
    ("Evaluation", frozenset({S.EVALUATING})),
    ("Gate", frozenset({S.PROVEN, S.REFUSED, S.ACCEPTED})),
    ("Canary", frozenset({S.DEPLOYING, S.CANARY, S.PROMOTED, S.ROLLED_BACK})),
)
TRIGGER, TRAINING, VERSION, EVALUATION, GATE, CANARY = range(len(STEPS))


@dataclass(frozen=True, slots=True)
class Step:
    title: str
    tone: str  # a state that the page has a colour for
    word: str
    text: str = ""
    link: str = ""
    label: str = ""  # of the link


def steps_of(row: Cycle, awaited: Sequence[str] = ()) -> list[Step]:
    """`awaited`: the evaluations that the gate waits for."""
    state, place = CycleState(row.state), _place(row)
    texts, links = _texts(row, awaited), _links(row)
    steps = []
    for number, (title, _) in enumerate(STEPS):
        tone, word = _standing(state, place, number)
        link, label = links.get(number, ("", ""))
        steps.append(Step(title, tone, word, texts.get(number, "") if number <= place else "", link, label))
    return steps if row.endpoint_id else steps[:CANARY]


def _place(row: Cycle) -> int:
    """How far it is, or where it ended."""
    state = CycleState(row.state)
    for number, (_, states) in enumerate(STEPS):
        if state in states:
            return number
    if row.version_id is None:  # failed or cancelled
        return TRAINING
    return CANARY if row.endpoint is not None and row.endpoint.canary_id == row.version_id else EVALUATION


def _standing(state: CycleState, place: int, number: int) -> tuple[str, str]:
    if number > place:
        return "off", "to come"
    if number < place:
        return "done", "done"
    if state in SUCCEEDED:
        return "done", {S.PROMOTED: "promoted", S.ACCEPTED: "passed"}[state]
    return state.value, WORDS.get(state, state.value)


WORDS = {
    S.REQUESTED: "needs approval", S.PROVEN: "needs approval", S.SUBMITTING: "submitting", S.ROLLED_BACK: "rolled back",
}  # fmt: skip


def _texts(row: Cycle, awaited: Sequence[str]) -> dict[int, str]:
    version = row.version
    texts = {
        TRIGGER: row.cause,
        TRAINING: f"with dataset {row.dataset}" if row.dataset else "",
        VERSION: f"{row.model.name} v{version.version}" if version else "",
        EVALUATION: "; ".join(awaited),
    }
    place = _place(row)
    parts = [part for part in (row.reason, texts.get(place)) if part]
    texts[place] = "; ".join(parts)
    return texts


def _links(row: Cycle) -> dict[int, tuple[str, str]]:
    team, model = row.model.team_id, row.model.name
    links = {}
    if row.job is not None:
        links[TRAINING] = (reverse("jobs:detail", args=[row.job_id]), row.job.name)
    if row.version is not None:
        page = reverse("registry:detail", args=[team, model])
        links[VERSION] = (page, f"v{row.version.version}")
        links[GATE] = (f"{page}#standing-{row.version_id}", "its standing")
    if row.endpoint is not None:
        links[CANARY] = (reverse("serving:detail", args=[team, row.endpoint.name]), row.endpoint.name)
    return links
