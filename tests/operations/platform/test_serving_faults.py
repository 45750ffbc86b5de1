"""A part of the platform is killed while callers ask an endpoint of two replicas through two routers.

What they lose is counted: nothing, but for the requests that a killed router had just then, one of each caller at most.
"""

from collections.abc import Iterator

import pytest

from benchmarks.rig import serving_faults
from benchmarks.rig.serving_faults import CALLERS, Service, under_load
from benchmarks.rig.survival_site import Site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(6 * serving_faults.PATIENCE)]


@pytest.fixture(scope="module")
def service(rig: Site) -> Iterator[Service]:
    with serving_faults.service(rig) as service:
        yield service


def test_no_request_is_lost_with_a_killed_replica(service: Service) -> None:
    assert under_load(service, serving_faults.replica_killed(service)).lost == []


def test_no_request_is_lost_with_a_killed_agent_whose_replica_goes_on(service: Service) -> None:
    assert under_load(service, serving_faults.agent_killed(service)).lost == []


def test_no_request_is_lost_with_a_killed_gateway(service: Service) -> None:
    assert under_load(service, serving_faults.gateway_killed(service)).lost == []


def test_a_killed_router_loses_what_it_had_in_flight_and_no_more(service: Service) -> None:
    seen = under_load(service, serving_faults.router_killed(service))
    assert set(seen.lost) <= {0}, "its connections end without an answer; nobody gets a wrong one"
    assert len(seen.lost) <= CALLERS
