"""Gateway and agent over TLS, with the certificates that the platform makes: `trainmaster up --tls`."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from webapp.operations.certs import certs
from webapp.operations.platform_process import PlatformProcess
from webapp.operations.programs import AGENT, runnable
from webapp.operations.state_folder import read_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def agent(platform: PlatformProcess, name: str, *flags: str) -> "subprocess.Popen[str]":
    """Another node that tries to join; what it says comes line by line."""
    environment = read_environment(platform.folder / "platform.env")
    server = environment["TRAINMASTER_GATEWAY_LISTEN"]
    token = environment["TRAINMASTER_BOOTSTRAP_TOKEN"]
    folder = platform.folder.parent / name
    return subprocess.Popen(
        runnable((*AGENT, "--server", server, "--data", str(folder), "--hostname", name, *flags)),
        env=os.environ | {"TRAINMASTER_AGENT_TOKEN": token},
        stderr=subprocess.PIPE,
        text=True,
    )


def says(process: "subprocess.Popen[str]", *words: str) -> str:
    """The first line with one of these words; then the agent is ended."""
    assert process.stderr is not None
    try:
        seen = []
        for line in process.stderr:
            seen.append(line)
            if any(word in line for word in words):
                return line
        pytest.fail(f"none of {words} in:\n{''.join(seen)}")
    finally:
        process.kill()
        process.wait()


def appears(words: str, log: Path, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if log.exists() and words in log.read_text():
            return True
        time.sleep(0.1)
    return False


def test_the_platforms_own_agent_joins_over_tls(platform: PlatformProcess) -> None:
    assert "TLS on" in (platform.folder / "logs" / "gateway.log").read_text()
    assert appears("connected to", platform.folder / "logs" / "node-1.log")


def test_another_node_that_has_the_authoritys_certificate_joins(platform: PlatformProcess) -> None:
    trusted = ("--ca", str(platform.folder / "certificates" / "ca.crt"))
    assert "connected to" in says(agent(platform, "second", *trusted), "connected to", "does not prove")


def test_an_agent_that_trusts_another_authority_says_that_the_gateway_does_not_prove_who_it_is(
    platform: PlatformProcess, tmp_path: Path
) -> None:
    CliRunner().invoke(certs, ["--dir", str(tmp_path), "--host", "localhost"])
    line = says(agent(platform, "wary", "--ca", str(tmp_path / "ca.crt")), "does not prove", "connected to")
    assert "does not prove who it is" in line


def test_an_agent_without_tls_reaches_nothing(platform: PlatformProcess) -> None:
    assert "connected to" not in says(
        agent(platform, "careless", "--insecure"), "trying again", "connected to"
    )


def test_a_wrong_token_is_refused_with_the_reason(platform: PlatformProcess) -> None:
    flags = ("--ca", str(platform.folder / "certificates" / "ca.crt"), "--token", "not-the-token")
    assert "bootstrap token is unknown" in says(agent(platform, "stranger", *flags), "token", "connected to")
