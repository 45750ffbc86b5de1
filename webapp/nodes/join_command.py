"""The command that adds a node, as this platform's gateway really is: its address, and how it proves who it is."""

import ipaddress
import shlex
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

DATA = "trainmaster-node"  # in the folder where the command is run; a service has one of its own


def join_command(token: str = "") -> str:
    """Returns what to paste into a shell of the new node; without a token it has the word TOKEN in its place."""
    argv = ["trainmaster", "agent", "--server", _server(), "--token", token or "TOKEN", "--data", DATA]
    if not settings.GATEWAY_TLS:
        return shlex.join([*argv, "--insecure"])
    authority = _authority()
    if not authority:
        return shlex.join(argv)
    return f"cat > ca.crt <<'END'\n{authority}\nEND\n{shlex.join([*argv, '--ca', 'ca.crt'])}"


def _server() -> str:
    """A gateway that listens everywhere is reached by the name that people use for the platform."""
    if settings.GATEWAY_ADDRESS:
        return str(settings.GATEWAY_ADDRESS)
    host, _, port = settings.GATEWAY_LISTEN.rpartition(":")
    return f"{_public_host()}:{port}" if _is_wildcard(host.strip("[]")) else str(settings.GATEWAY_LISTEN)


def _public_host() -> str:
    host = urlsplit(settings.PUBLIC_URL).hostname or "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _is_wildcard(host: str) -> bool:
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _authority() -> str:
    """The certificate that `trainmaster certs` writes beside the gateway's; "" without one."""
    try:
        return (Path(settings.GATEWAY_CERTIFICATE).parent / "ca.crt").read_text().strip()
    except OSError:
        return ""
