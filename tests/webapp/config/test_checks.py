"""Settings that are each right and together wrong stop the start with a sentence."""

from typing import Any

import pytest
from django.conf import LazySettings

from webapp.config.checks import places_are_addresses, settings_agree


def test_the_defaults_agree() -> None:
    assert [*settings_agree(None), *places_are_addresses(None)] == []


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"HEARTBEAT_SECONDS": 6}, "E001"),
        ({"LOST_AFTER_SECONDS": 10}, "E002"),
        ({"LEASE_SECONDS": 2}, "E003"),
        ({"REPORT_RECIPIENTS": ["ops@example.org"]}, "E004"),
        ({"SOURCE_PREFIXES": ["s3://"]}, "E005"),
        ({"PRIORITY_OF_LEADS": 60}, "E006"),
        ({"COLD_STORE_URL": "file:///"}, "E007"),
    ],
)
def test_settings_that_contradict_each_other_are_named_with_their_values(
    settings: LazySettings, change: dict[str, Any], names: str
) -> None:
    for name, value in change.items():
        setattr(settings, name, value)
    (problem,) = [*settings_agree(None), *places_are_addresses(None)]
    assert problem.id == f"trainmaster.{names}"
    [value] = change.values()
    assert str(value[0] if isinstance(value, list) else value) in problem.msg
