"""The agent's settings: the only place in this program that reads the environment. Flags override it.

Every setting is TRAINMASTER_AGENT_<NAME>; each has its heading in docs/reference/settings.md.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from agent.probes.clouds import ADDRESS, CLOUDS
from platform_core.cluster.gpu_shares import MOST_SHARES
from trainmaster.structured_logs import FORMATS

PREFIX = "TRAINMASTER_AGENT_"
MIB = 1 << 20

# What a job inherits from the agent's environment. Everything else (tokens, proxies with passwords, database addresses,
# cloud keys of the agent) stays with the agent, unless TRAINMASTER_AGENT_JOB_ENVIRONMENT names it.
_INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM"}
    | {"LD_LIBRARY_PATH", "LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"}
)
_INHERITED_PREFIXES = ("LC_", "NCCL_", "GLOO_", "NVIDIA_", "CUDA_", "TORCH_", "UCX_", "FI_")


class Isolation(StrEnum):
    """How the jobs of a node are isolated from each other and from its agent."""

    NONE = "none"  # process jobs run as the agent's user
    USER = "user"  # as a system user of their team
    CONTAINERS = "containers"  # there are no process jobs


class ConfigError(Exception):
    """A setting is not valid; the message names it, its value and what it must be."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    server: str  # host:port of the gateway
    data: Path
    token: str = field(repr=False)  # bootstrap token, needed only for the first start
    rack: str
    block: str
    hostname: str
    gpu_type: str  # '' means: as the hardware says
    slots: int  # 0 means: the GPUs that NVML finds, else one CPU slot a core
    gpu_shares: int  # slots that each GPU has, for replicas that share it
    island_slots: int  # so many neighbouring slots each are linked; 0 means: as NVML says
    address: str  # host or IP that other nodes reach
    transfer_port: int  # 0 takes a free one
    rendezvous_ports: tuple[int, int]
    labels: tuple[tuple[str, str], ...]
    ca: Path | None
    certificate: Path | None  # of this node, shown to other nodes; with `key` and `ca`, models move by TLS
    key: Path | None
    insecure: bool
    python: str  # the interpreter that runs training scripts in the process launcher
    engine: str  # docker, podman, or a path to either
    log_cap_bytes: int  # of one rank's log file kept on this node's disk
    hooks: Path | None  # folder of the commands that rollouts may run here; none: they run nothing
    receive_cap: int  # bytes per second of models coming in, 0 is no cap
    send_cap: int  # and going out to other nodes
    cache_high: int  # percent of the disk in use from which models that nobody needs go
    cache_low: int  # until it is this
    stream_disk: int  # bytes of this disk for the streamed dataset of one attempt
    checkpoint_share: (
        int  # percent of the link that uploads of checkpoints may take; a moving model goes first
    )
    store_silence: int  # seconds without a byte after which a range of the store is asked for anew
    isolation: Isolation
    job_environment: tuple[str, ...]  # names of variables that jobs inherit beside the usual ones
    upload_limit_seconds: int  # how long the last uploads of an ended attempt may take
    notice: str  # the cloud whose metadata service says it: aws, gcp, azure, or ''
    notice_address: str  # of that service
    notice_url: str  # where the cloud says that it takes this machine away; '' means nobody says so
    notice_seconds: int  # how long it then has
    system_interval_seconds: int  # between two samples of the system series of an attempt; 0 takes none
    hang_floor_seconds: int  # the least silence of a job's ranks that counts as a hang; 0: none does
    dcgm_exporter: str  # its address, whose profiling counters are read instead of NVML's; '' reads NVML's
    metrics_listen: str  # HOST:PORT of this agent's /metrics; '' has none
    metrics_token: str = field(repr=False)
    standby_free: (
        int  # bytes of memory that must be available before processes stand by for a job; 0: none do
    )
    rejoin: bool
    log_format: str  # of the agent's own log: plain or json
    stop_jobs_on_leave: bool  # SIGTERM to the agent ends its jobs too; otherwise they go on without it


_TEXT_DEFAULTS = {
    "token": "",
    "rack": "",
    "block": "",
    "gpu_type": "",
    "engine": "docker",
    "python": sys.executable,
    "log_format": "plain",
    "rendezvous_ports": "29500-29999",
}


def load(flags: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> AgentConfig:
    """Flags that are None or empty were not given; then the environment counts, then the default."""
    source = _Source(flags, os.environ if environment is None else environment)
    server, data = _server(source), source.text("data")
    if not data:
        raise ConfigError(f"The agent needs a folder of its own: --data DIR or {PREFIX}DATA.")
    hostname = source.text("hostname") or socket.gethostname()
    ca, certificate, key = source.path("ca"), source.path("certificate"), source.path("key")
    _check_certificate(certificate, key, ca)
    cache_low, cache_high = _watermarks(source)
    metrics_listen, metrics_token = _metrics(source)
    return AgentConfig(
        server=server,
        data=Path(data).absolute(),
        token=source.secret("token"),
        rack=source.text("rack"),
        block=source.text("block"),
        hostname=hostname,
        gpu_type=source.text("gpu_type"),
        slots=source.number("slots", 0, 0, 4096),
        gpu_shares=source.number("gpu_shares", 1, 1, MOST_SHARES),
        island_slots=source.number("island_slots", 0, 0, 4096),
        address=source.text("address") or hostname,
        transfer_port=source.number("transfer_port", 0, 0, 65535),
        rendezvous_ports=_port_range(source.text("rendezvous_ports")),
        labels=_labels([*source.many("label"), *(["spot=yes"] if source.switch("spot") else [])]),
        ca=ca,
        certificate=certificate,
        key=key,
        insecure=source.switch("insecure"),
        python=source.text("python"),
        engine=source.text("engine"),
        log_cap_bytes=source.number("log_cap_mib", 64, 2, 1 << 20) * MIB,
        hooks=_hooks(source.path("hooks")),
        receive_cap=source.number("receive_cap_mib", 0, 0, 1 << 20) * MIB,
        send_cap=source.number("send_cap_mib", 0, 0, 1 << 20) * MIB,
        cache_high=cache_high,
        cache_low=cache_low,
        stream_disk=source.number("stream_disk_mib", 65_536, 1, 1 << 30) * MIB,
        checkpoint_share=source.number("checkpoint_share", 50, 1, 100),
        store_silence=source.number("store_silence_seconds", 5, 1, 3600),
        isolation=_isolation(source.text("isolation")),
        job_environment=tuple(source.many("job_environment")),
        upload_limit_seconds=source.number("upload_limit_seconds", 300, 1, 86_400),
        notice=(cloud := _cloud(source)),
        notice_address=source.text("notice_address") or ADDRESS,
        notice_url=source.text("notice_url"),
        notice_seconds=source.number("notice_seconds", CLOUDS[cloud].seconds if cloud else 120, 1, 86_400),
        system_interval_seconds=source.number("system_interval_seconds", 10, 0, 3600),
        hang_floor_seconds=source.number("hang_floor_seconds", 300, 0, 86_400),
        dcgm_exporter=source.text("dcgm_exporter"),
        metrics_listen=metrics_listen,
        metrics_token=metrics_token,
        standby_free=source.number("standby_free_mib", 4096, 0, 1 << 30) * MIB,
        rejoin=source.switch("rejoin"),
        log_format=_log_format(source.text("log_format")),
        stop_jobs_on_leave=source.switch("stop_jobs_on_leave"),
    )


def _server(source: _Source) -> str:
    server = source.text("server")
    if not server:
        raise ConfigError(f"The agent needs the gateway's address: --server HOST:PORT or {PREFIX}SERVER.")
    if ":" not in server or not server.rpartition(":")[2].isdigit():
        raise ConfigError(f'The server is "{server}"; it must be HOST:PORT, as in control.example:7443.')
    return server


def _cloud(source: _Source) -> str:
    cloud = source.text("notice")
    if cloud and cloud not in CLOUDS:
        raise ConfigError(
            f'The notice is "{cloud}"; it must be {", ".join(CLOUDS)}, or a --notice-url instead.'
        )
    if cloud and source.text("notice_url"):
        raise ConfigError("Both --notice and --notice-url are given; keep the one that says it.")
    return cloud


def _watermarks(source: _Source) -> tuple[int, int]:
    high = source.number("cache_high", 90, 1, 100)
    low = source.number("cache_low", min(80, high), 0, 100)
    if low > high:
        raise ConfigError(f"cache_low is {low}; it must not be above cache_high, which is {high}.")
    return low, high


def _metrics(source: _Source) -> tuple[str, str]:
    """Where this agent serves its metrics, and the token that Prometheus presents."""
    listen, token = source.text("metrics_listen"), source.secret("metrics_token")
    if listen and not token:
        raise ConfigError(
            "metrics_listen needs metrics_token: nobody reads the metrics of this node without it."
        )
    return listen, token


def _check_certificate(certificate: Path | None, key: Path | None, ca: Path | None) -> None:
    if (certificate is None) != (key is None) or (certificate is not None and ca is None):
        raise ConfigError("A certificate for other nodes needs all three: --certificate, --key and --ca.")


def inherited_environment(
    also: Iterable[str] = (), environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The part of the agent's environment that a training process may see."""
    return _selection(_INHERITED | frozenset(also), _INHERITED_PREFIXES, environment)


def engine_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the command line of Docker or Podman needs to find its engine."""
    names = frozenset({"PATH", "HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"})
    return _selection(names, ("DOCKER_", "CONTAINER_", "CONTAINERS_"), environment)


def _selection(
    names: frozenset[str], prefixes: tuple[str, ...], environment: Mapping[str, str] | None
) -> dict[str, str]:
    source = os.environ if environment is None else environment
    return {name: value for name, value in source.items() if name in names or name.startswith(prefixes)}


class _Source:
    def __init__(self, flags: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._flags = flags
        self._environment = environment

    def _given(self, name: str) -> Any:
        flag = self._flags.get(name)
        if flag is not None and flag != () and flag != "" and flag is not False:
            return flag
        return self._environment.get(PREFIX + name.upper(), "")

    def text(self, name: str) -> str:
        return str(self._given(name)).strip() or _TEXT_DEFAULTS.get(name, "")

    def secret(self, name: str) -> str:
        """From the flag, the environment, or the file that <NAME>_FILE names."""
        file = self._environment.get(f"{PREFIX}{name.upper()}_FILE", "")
        given = self.text(name)
        if given or not file:
            return given
        try:
            return Path(file).read_text().strip()
        except OSError as error:
            raise ConfigError(f"{PREFIX}{name.upper()}_FILE cannot be read: {error}.") from error

    def path(self, name: str) -> Path | None:
        given = self.text(name)
        return Path(given) if given else None

    def number(self, name: str, default: int, low: int, high: int) -> int:
        given = self.text(name)
        if not given:
            return default
        try:
            value = int(given)
        except ValueError:
            raise ConfigError(f'{name} is "{given}"; it must be a whole number.') from None
        if not low <= value <= high:
            raise ConfigError(f"{name} is {value}; it must be {low} to {high}.")
        return value

    def switch(self, name: str) -> bool:
        given = str(self._given(name)).strip().lower()
        if given in ("", "0", "false", "no", "off"):
            return False
        if given in ("1", "true", "yes", "on"):
            return True
        raise ConfigError(f'{name} is "{given}"; it must be 1 or 0.')

    def many(self, name: str) -> list[str]:
        given = self._given(name)
        if isinstance(given, str):
            return [part.strip() for part in given.split(",") if part.strip()]
        return [str(part) for part in given]


def _port_range(text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    if not (dash and low.isdigit() and high.isdigit() and 0 < int(low) <= int(high) <= 65535):
        raise ConfigError(f'The rendezvous ports are "{text}"; they must be LOW-HIGH, as in 29500-29999.')
    return int(low), int(high)


def _isolation(text: str) -> Isolation:
    try:
        isolation = Isolation(text or Isolation.NONE)
    except ValueError:
        raise ConfigError(f'isolation is "{text}"; it must be none, user or containers.') from None
    if isolation is Isolation.USER and os.geteuid() != 0:
        raise ConfigError("isolation is user, which only an agent that runs as root can do; run it as root.")
    return isolation


def _log_format(text: str) -> str:
    if text not in FORMATS:
        raise ConfigError(f'log_format is "{text}"; it must be one of {", ".join(FORMATS)}.')
    return text


def _hooks(folder: Path | None) -> Path | None:
    if folder is not None and not folder.is_dir():
        raise ConfigError(f"The folder of hooks, {folder}, is not there.")
    return folder.absolute() if folder is not None else None


def _labels(pairs: list[str]) -> tuple[tuple[str, str], ...]:
    labels: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key):
            raise ConfigError(f'The label "{pair}" must be KEY=VALUE.')
        labels[key] = value
    return tuple(sorted(labels.items()))
