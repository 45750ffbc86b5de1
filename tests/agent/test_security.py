"""TLS between the agent and the gateway: on unless told otherwise, and a server must prove who it is."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.agent.conftest import AgentProcess
from tests.support.gateway import Gateway


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncIterator[tuple[Gateway, Path]]:
    """A gateway with a certificate of its own, and the file to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gateway")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "ca.pem").write_bytes(pem)
    gateway = Gateway()
    await gateway.start(credentials=grpc.ssl_server_credentials([(private, pem)]))
    yield gateway, tmp_path / "ca.pem"
    await gateway.stop()


async def test_an_agent_that_trusts_the_certificate_connects(
    secure: tuple[Gateway, Path], tmp_path: Path
) -> None:
    gateway, ca = secure
    agent = AgentProcess(gateway, tmp_path / "agent", ("--ca", str(ca)))
    await agent.start()
    try:
        await gateway.until(lambda: gateway.heartbeats)
    finally:
        await agent.kill()


async def test_an_unknown_certificate_is_not_trusted_and_the_remedy_is_said(
    secure: tuple[Gateway, Path], tmp_path: Path
) -> None:
    gateway, _ = secure
    agent = AgentProcess(gateway, tmp_path / "agent", ())
    await agent.start()
    try:
        await agent.until_said("does not prove who it is")
    finally:
        await agent.kill()
    assert "--ca FILE" in agent.log()
    assert gateway.joins == []


async def test_a_missing_certificate_file_stops_the_start(gateway: Gateway, tmp_path: Path) -> None:
    agent = AgentProcess(gateway, tmp_path / "agent", ("--ca", str(tmp_path / "none.pem")))
    await agent.start()
    assert await agent.ended() == 2
    assert "none.pem cannot be read: No such file" in agent.log()
