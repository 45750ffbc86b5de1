"""`trainmaster certs`, proven by a real TLS handshake over gRPC."""

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result

from webapp.operations.certs import certs


def make(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(certs, ["--dir", str(folder), *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert make(tmp_path, "--host", "localhost", "--host", "127.0.0.1", "--node", "node-1").exit_code == 0
    return tmp_path


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    """A gRPC server that shows the certificate and asks the caller for one signed by the same authority."""
    pair = ((folder / "server-localhost.key").read_bytes(), (folder / "server-localhost.crt").read_bytes())
    server = grpc.server(ThreadPoolExecutor(1))
    credentials = grpc.ssl_server_credentials(
        [pair], (folder / "ca.crt").read_bytes(), require_client_auth=True
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    yield port
    server.stop(None).wait()


def connects(target: str, credentials: grpc.ChannelCredentials) -> bool:
    with grpc.secure_channel(target, credentials) as channel:
        try:
            channel.unary_unary("/none/None")(b"", timeout=10)
        except grpc.RpcError as error:
            return error.code() is grpc.StatusCode.UNIMPLEMENTED  # it was reached, and has no such method
    return False


def node_credentials(folder: Path, authority: Path) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        authority.read_bytes(),
        (folder / "node-node-1.key").read_bytes(),
        (folder / "node-node-1.crt").read_bytes(),
    )


def test_a_node_and_the_gateway_trust_each_other(folder: Path, port: int) -> None:
    assert connects(f"localhost:{port}", node_credentials(folder, folder / "ca.crt"))
    assert connects(f"127.0.0.1:{port}", node_credentials(folder, folder / "ca.crt"))


def test_a_node_that_knows_another_authority_refuses_the_gateway(
    folder: Path, port: int, tmp_path: Path
) -> None:
    assert make(tmp_path / "other", "--host", "localhost").exit_code == 0
    assert not connects(f"localhost:{port}", node_credentials(folder, tmp_path / "other" / "ca.crt"))


def test_keys_are_for_their_owner_only(folder: Path) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.key")}
    assert modes == {"ca.key": 0o600, "server-localhost.key": 0o600, "node-node-1.key": 0o600}


def test_refuses_to_overwrite_and_says_what_is_there(folder: Path) -> None:
    before = (folder / "server-localhost.crt").read_bytes()
    result = make(folder, "--host", "localhost")
    assert result.exit_code == 1
    assert "already holds server-localhost" in result.output
    assert (folder / "server-localhost.crt").read_bytes() == before


def test_a_later_call_adds_a_node_under_the_same_authority(folder: Path) -> None:
    before = (folder / "ca.crt").read_bytes()
    assert make(folder, "--host", "second.example", "--node", "node-2").exit_code == 0
    assert (folder / "ca.crt").read_bytes() == before


def test_half_an_authority_is_not_silently_replaced(folder: Path) -> None:
    (folder / "ca.key").unlink()
    result = make(folder, "--host", "second.example")
    assert "only one of ca.crt and ca.key" in result.output


def test_a_name_that_is_no_host_is_refused(tmp_path: Path) -> None:
    result = make(tmp_path / "new", "--host", "../../etc")
    assert "neither a host name nor an IP address" in result.output
    assert not list((tmp_path / "new").iterdir())


def test_prints_where_things_lie_and_the_fingerprint(tmp_path: Path) -> None:
    output = make(tmp_path, "--host", "localhost").output
    assert f"{tmp_path}/ca.crt" in output
    assert "SHA256 " in output
