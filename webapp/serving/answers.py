"""What routers sample of answers, and the labels that say later what was right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from platform_core.drift.features import features_of
from platform_core.errors import TrainmasterError
from platform_core.json_values import storable
from platform_core.serving.quality import outcome, outputs_of
from platform_core.units import DAY_MS
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.serving import collecting, queries
from webapp.serving.models import AnswerSample, Endpoint, Prediction
from webapp.serving.values import SampledAnswer
from webapp.sockets import services as sockets

MOST_LABELS = 10_000  # of one call
KEPT_MS, MOST_KEPT = 30 * DAY_MS, 50_000  # of one endpoint, that wait for a label


def keep_answers(answers: Sequence[SampledAnswer]) -> None:
    """Keeps the features of what a router sampled; the rest is forgotten here."""
    features = [(one, storable(features_of(one.request, one.answer, one.redact))) for one in answers]
    AnswerSample.objects.bulk_create([
        AnswerSample(endpoint_id=one.endpoint_id, model_version_id=one.version_id, at_ms=one.at_ms, features=known)
        for one, known in features
        if known
    ])  # fmt: skip
    predictions = [
        Prediction(
            endpoint_id=one.endpoint_id, model_version_id=one.version_id, at_ms=one.at_ms, request=one.request_id,
            outputs=outputs,
        )
        for one, known in features
        if one.request_id and (outputs := outputs_of(known))
    ]  # fmt: skip
    Prediction.objects.bulk_create(predictions, ignore_conflicts=True)
    collecting.keep([one for one in answers if one.collected])


@dataclass(frozen=True, slots=True)
class Joined:
    joined: int
    unknown: tuple[str, ...]  # not sampled, or forgotten
    other_shape: tuple[str, ...]  # than what was answered


@transaction.atomic
def label(actor: Actor, team: str, name: str, labels: Mapping[str, Any]) -> Joined:
    """Joins labels by request id, for each version that answered; a later one takes the place of an earlier one.

    Raises request_invalid.
    """
    permissions.require(actor, "endpoint.label", team, what=f"endpoint {name} in team {team}")
    row = queries.find(team, name, None)
    if row is None:
        raise TrainmasterError("not_found", what=f"endpoint {name} in team {team}")
    if len(labels) > MOST_LABELS:
        why = f"there are {len(labels):,}; at most {MOST_LABELS:,} fit into one call"
        raise TrainmasterError("request_invalid", what="labels", why=why)
    rows = Prediction.objects.select_for_update().filter(endpoint=row.id, request__in=list(labels))
    known, other = [], []
    for prediction in rows.order_by("id"):
        result = outcome(prediction.outputs, labels[prediction.request])
        if result is None:
            other.append(prediction.request)
            continue
        prediction.correct, prediction.error, prediction.labelled_ms = result.correct, result.error, now_ms()
        prediction.label = labels[prediction.request]
        known.append(prediction)
    Prediction.objects.bulk_update(known, ["correct", "error", "label", "labelled_ms"], batch_size=1_000)
    sockets.publish(f"endpoint:{row.id}")
    joined = {prediction.request for prediction in known}
    shapeless = tuple(dict.fromkeys(key for key in other if key not in joined))
    unknown = tuple(key for key in labels if key not in joined and key not in shapeless)
    return Joined(len(joined), unknown, shapeless)


def forget_predictions(row: Endpoint, at_ms: int) -> None:
    rows = Prediction.objects.filter(endpoint=row.pk)
    rows.filter(at_ms__lt=at_ms - KEPT_MS).delete()
    oldest = rows.order_by("-id").values_list("pk", flat=True)[MOST_KEPT : MOST_KEPT + 1].first()
    if oldest is not None:
        rows.filter(pk__lte=oldest).delete()
