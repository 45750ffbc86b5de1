"""This machine is no place that a source may lie in, except in tests."""

from collections.abc import Iterator
from functools import partial

import pytest

from trainmaster import gate

this_machine = partial(gate.addresses, allowed=("127.0.0.0/8", "::1"))


@pytest.fixture(autouse=True, scope="package")
def this_machine_may_be_asked() -> Iterator[None]:
    """For packages without the settings of the platform, which have TRAINMASTER_OUTBOUND_HOSTS instead."""
    before = gate._installed
    gate.install(this_machine)
    yield
    gate.install(before)
