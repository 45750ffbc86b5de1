"""The one connection to the gateway, and what its refusals mean."""

from __future__ import annotations

from pathlib import Path

import grpc
import grpc.aio

from agent.config import AgentConfig, ConfigError
from agent.identity import Identity

Metadata = tuple[tuple[str, str], ...]

# Pings find a dead connection. The gateway answers heartbeats, so it never counts the pings as abuse.
_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.max_receive_message_length", 64 << 20),
)

# Trying again helps with these; every other status is an answer to what was asked.
_PASSING = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)


class Refused(Exception):
    """The server said no, and asking again cannot change that. The message is a sentence for the operator."""


def open_channel(config: AgentConfig) -> grpc.aio.Channel:
    if config.insecure:
        return grpc.aio.insecure_channel(config.server, options=_OPTIONS)
    roots = read_pem(config.ca) if config.ca is not None else None
    return grpc.aio.secure_channel(config.server, grpc.ssl_channel_credentials(roots), options=_OPTIONS)


def peer_credentials(
    config: AgentConfig,
) -> tuple[grpc.ServerCredentials | None, grpc.ChannelCredentials | None]:
    """For moving models between nodes: what this node shows, and whom it trusts. None is no TLS."""
    if config.certificate is None or config.key is None or config.ca is None:
        return None, None
    pair = (read_pem(config.key), read_pem(config.certificate))
    roots = read_pem(config.ca)
    shown = grpc.ssl_server_credentials([pair], roots, require_client_auth=True)
    return shown, grpc.ssl_channel_credentials(roots, *pair)


def read_pem(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"The file {path} cannot be read: {error.strerror}.") from error


def authorisation(identity: Identity) -> Metadata:
    return (("authorization", f"Bearer {identity.credential}"),)


def is_shut_out(error: grpc.aio.AioRpcError) -> bool:
    """Whether the credential or token of this node is refused: only a person can change that, not the next try."""
    return error.code() is grpc.StatusCode.UNAUTHENTICATED


def is_passing(error: grpc.aio.AioRpcError) -> bool:
    return error.code() in _PASSING


def sentence_of(error: grpc.aio.AioRpcError) -> str:
    details = (error.details() or "").strip().rstrip(".") or "no details were given"
    return f"{details} ({error.code().name})"


def trouble_of(server: str, error: grpc.aio.AioRpcError) -> str:
    """Why the server cannot be reached just now, with the remedy where one is known."""
    details = error.details() or ""
    if "CERTIFICATE_VERIFY_FAILED" in details or "handshake" in details.lower():
        return (
            f"{server} does not prove who it is: {details}. Give the platform's certificate with --ca FILE,"
            " or --insecure where the server was started without TLS"
        )
    if "failed to connect" in details.lower():
        cause = details.rpartition("Failed to connect to remote host: ")[2].split("[")[0].strip(" .")
        return f"{server} cannot be reached: {cause[:80].lower()}"
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return f"{server} is not a Trainmaster gateway: {sentence_of(error)}"
    return f"{server} {'is away' if is_passing(error) else 'refuses this'}: {sentence_of(error)}"
