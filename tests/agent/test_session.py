"""What refusals of the gateway mean to an agent: only one that shuts the node out ends it."""

from __future__ import annotations

import grpc
import pytest

from tests.agent.conftest import AgentProcess
from tests.support.gateway import Gateway


@pytest.mark.parametrize(
    "refusal",
    [
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
    ],
)
async def test_an_agent_asks_again_until_the_gateway_takes_it(
    gateway: Gateway, agent: AgentProcess, refusal: grpc.StatusCode
) -> None:
    gateway.refusal = refusal
    await agent.start()
    await agent.until_said(refusal.name)
    gateway.refusal = None
    await gateway.until(lambda: gateway.heartbeats)


async def test_an_agent_whose_credential_is_refused_ends_with_the_remedy(
    gateway: Gateway, agent: AgentProcess
) -> None:
    gateway.refusal = grpc.StatusCode.UNAUTHENTICATED
    await agent.start()
    assert await agent.ended() == 3
    assert "--rejoin --token TOKEN" in agent.log()
