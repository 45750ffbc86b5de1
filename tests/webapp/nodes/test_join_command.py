"""The command that a page shows for a new node is one that the agent takes, for this gateway."""

import shlex
from pathlib import Path

import pytest
from django.conf import LazySettings

from agent.config import AgentConfig, load
from agent.main import agent
from tests.webapp.conftest import Cast, signed_in
from webapp.nodes.join_command import join_command
from webapp.operations.certs import ensure_certificates


def config_of(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AgentConfig:
    """As the shell and the agent's own command line read it."""
    monkeypatch.chdir(folder)
    [*_, line] = command.splitlines()
    [program, subcommand, *arguments] = shlex.split(line)
    assert (program, subcommand) == ("trainmaster", "agent")
    flags = agent.make_context("agent", arguments).params
    flags.pop("verbose")
    return load(flags, {})


def test_a_gateway_without_tls_is_joined_without(
    settings: LazySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GATEWAY_TLS, settings.GATEWAY_LISTEN = False, "127.0.0.1:21501"
    config = config_of(join_command("tmb_x"), tmp_path, monkeypatch)
    assert (config.server, config.token, config.insecure) == ("127.0.0.1:21501", "tmb_x", True)
    assert config.data.parent == tmp_path


def test_a_gateway_of_a_private_authority_brings_its_certificate_along(
    settings: LazySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = tmp_path / "certificates"
    ensure_certificates(certificates, ())
    settings.GATEWAY_TLS, settings.GATEWAY_CERTIFICATE = True, str(certificates / "server-localhost.crt")
    command = join_command("tmb_x")
    config = config_of(command, tmp_path, monkeypatch)
    assert (config.ca, config.insecure) == (Path("ca.crt"), False)
    assert (certificates / "ca.crt").read_text().strip() in command


def test_a_gateway_with_a_public_certificate_needs_no_file(
    settings: LazySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GATEWAY_TLS, settings.GATEWAY_CERTIFICATE = True, str(tmp_path / "gateway.crt")
    config = config_of(join_command("tmb_x"), tmp_path, monkeypatch)
    assert (config.ca, config.insecure) == (None, False)


@pytest.mark.parametrize(
    ("listens", "told", "server"),
    [
        ("0.0.0.0:7600", "", "control.example:7600"),
        ("[::]:7600", "", "control.example:7600"),
        ("10.0.0.5:7600", "", "10.0.0.5:7600"),
        ("0.0.0.0:7600", "gateway.example:443", "gateway.example:443"),
    ],
)
def test_nodes_are_told_an_address_that_they_can_reach(
    listens: str, told: str, server: str, settings: LazySettings, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings.PUBLIC_URL = "https://control.example"
    settings.GATEWAY_LISTEN, settings.GATEWAY_ADDRESS = listens, told
    assert config_of(join_command("tmb_x"), tmp_path, monkeypatch).server == server


@pytest.mark.parametrize("address", ["/cluster/", "/nodes/"])
def test_an_empty_cluster_shows_the_same_command(address: str, cast: Cast, settings: LazySettings) -> None:
    settings.GATEWAY_TLS = False
    operator = signed_in(cast.admin).get(address).content.decode()
    assert join_command() in operator
    assert 'href="/nodes/tokens/"' in operator
    assert "which a platform administrator creates" in signed_in(cast.member).get(address).content.decode()
