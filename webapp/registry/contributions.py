"""What the apps above add to the model pages, without the registry knowing them."""

from collections.abc import Callable
from typing import Any

from webapp.registry.models import Model

# version id → where it is deployed: [{id, state, label}]; and one line about the model as a whole
Deployed = Callable[[Model], dict[str, list[dict[str, Any]]]]
_DEPLOYED: list[Deployed] = []


def deployed(source: Deployed) -> None:
    _DEPLOYED.append(source)


def deployments_of(model: Model) -> dict[str, list[dict[str, Any]]]:
    return {version: lines for source in _DEPLOYED for version, lines in source(model).items()}
