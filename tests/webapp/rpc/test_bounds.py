"""No field that a node fills goes into the platform without a bound."""

from dataclasses import fields
from enum import StrEnum
from typing import Any, get_type_hints

import pytest

from platform_core.node.description import NodeDescription, SlotDescription, SlotTelemetry, Telemetry
from platform_core.node.observed import ActivationObserved, AttemptObserved, DeploymentObserved
from trainmaster_wire.conversion import LOCAL
from webapp.rpc.bounds import LIMITS, RULES

# Fields with a check of their own, and numbers of 32 bits, which every column takes.
CHECKED: dict[Any, set[str]] = {
    NodeDescription: {"slots", "labels", "versions", "hardware_faults"},
    SlotDescription: set(),
    Telemetry: {"slots"},
    SlotTelemetry: {"index"},
    AttemptObserved: {"attempt_id", "exit_code"},
    DeploymentObserved: {"deployment_id"},
    ActivationObserved: {"model", "version", "deployment_id", "exit_code", "check_exit_code"},
}


@pytest.mark.parametrize("kind", CHECKED, ids=lambda kind: kind.__name__)
def test_every_text_and_number_of_a_node_has_a_bound(kind: Any) -> None:
    hints = get_type_hints(kind)
    free = {
        field.name
        for field in fields(kind)
        if field.name not in LOCAL.get(kind, ())
        and hints[field.name] is not bool
        and not (isinstance(hints[field.name], type) and issubclass(hints[field.name], StrEnum))
    }
    assert {*RULES.get(kind, {}), *LIMITS.get(kind, {})} | CHECKED[kind] == free
