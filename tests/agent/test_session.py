"""What refusals of the gateway mean to an agent: only one that shuts the node out ends it."""

from __future__ import annotations

import re

import grpc
import httpx
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


async def test_an_agent_serves_its_own_metrics_to_those_who_have_the_token(
    gateway: Gateway, agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMASTER_AGENT_METRICS_TOKEN", "scrape-me")
    await agent.start("--metrics-listen", "127.0.0.1:0")
    await gateway.until(lambda: gateway.heartbeats)
    [url] = re.findall(r"metrics at (\S+)", agent.log())
    async with httpx.AsyncClient() as client:
        answer = await client.get(url, headers={"Authorization": "Bearer scrape-me"})
        refused = await client.get(url)
    assert re.search(r'^trainmaster_agent_connected\{node="[^"]+"\} 1\.0$', answer.text, re.MULTILINE)
    assert refused.status_code == 401
    assert "scrape-me" not in agent.log()


async def test_an_agent_without_a_token_for_its_metrics_does_not_start(agent: AgentProcess) -> None:
    await agent.start("--metrics-listen", "127.0.0.1:0")
    assert await agent.ended() == 2
    assert "metrics_listen needs metrics_token" in agent.log()
