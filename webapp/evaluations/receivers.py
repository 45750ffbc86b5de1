from typing import TYPE_CHECKING, Any

from webapp.evaluations import services

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion


def evaluate_candidate(sender: Any, version: "ModelVersion", **_: Any) -> None:
    services.evaluate_candidate(version)
