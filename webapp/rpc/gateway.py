"""The gateway process: enrolment, sessions and uplinks of the agents over gRPC."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from redis.exceptions import RedisError

from trainmaster_wire.agent.v1 import session_pb2_grpc, uplink_pb2_grpc
from webapp.alerts import services as alerts
from webapp.base import stops
from webapp.base.exposition import expose
from webapp.rpc.database import in_database
from webapp.rpc.enrolment import add_enrolment
from webapp.rpc.revisions import Watcher
from webapp.rpc.session import SessionServicer
from webapp.rpc.uplink import UplinkServicer

log = logging.getLogger(__name__)
STAND_IN_SECONDS = 15
MESSAGE_LIMIT = 64 * 2**20  # the manifest of a 500 GB model has some MiB
RECEIVE_LIMIT = 16 * 2**20  # that of a checkpoint, too

_OPTIONS = [
    ("grpc.max_receive_message_length", RECEIVE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),  # a second gateway on the same port is a mistake, not a replica
]


def serve() -> None:
    asyncio.run(_serve())


async def _serve() -> None:
    watcher = Watcher()
    server = make_server(watcher)
    _bind(server)
    await server.start()
    expose("TRAINMASTER_GATEWAY_METRICS_LISTEN", settings.GATEWAY_METRICS_LISTEN, partial(_families, watcher))
    log.info(
        "gateway listens on %s (TLS %s)", settings.GATEWAY_LISTEN, "on" if settings.GATEWAY_TLS else "off"
    )
    watching = asyncio.create_task(watcher.run())
    standing_in = asyncio.create_task(_stand_in())
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await stop.wait()
    await in_database(partial(stops.announce, stops.GATEWAY))
    for task in (watching, standing_in):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await server.stop(grace=1)  # agents reconnect by themselves


def _families(watcher: Watcher) -> Iterator[Metric]:
    sessions = "Agents with a session at this gateway."
    yield GaugeMetricFamily("trainmaster_gateway_sessions", sessions, value=watcher.sessions)


async def _stand_in() -> None:
    """Evaluates alerts while no worker does: workers that are down cannot tell of it themselves."""
    while True:
        await asyncio.sleep(STAND_IN_SECONDS)
        try:
            if await in_database(alerts.stand_in):
                log.warning("the gateway evaluates alerts: no worker has for a minute")
        except (DatabaseError, RedisError) as error:
            log.warning("alerts could not be evaluated: %s", error)


def make_server(watcher: Watcher) -> grpc.aio.Server:
    """The server with all services that agents call, without a port yet."""
    server = grpc.aio.server(options=_OPTIONS)
    add_enrolment(server)
    session_pb2_grpc.add_AgentSessionServicer_to_server(SessionServicer(watcher), server)
    uplink_pb2_grpc.add_UplinkServicer_to_server(UplinkServicer(), server)
    return server


def _bind(server: grpc.aio.Server) -> None:
    if not settings.GATEWAY_TLS:
        server.add_insecure_port(settings.GATEWAY_LISTEN)
        return
    try:
        key = Path(settings.GATEWAY_KEY).read_bytes()
        certificate = Path(settings.GATEWAY_CERTIFICATE).read_bytes()
    except OSError as error:
        raise ImproperlyConfigured(
            f"TLS is on, but {error.filename or 'TRAINMASTER_GATEWAY_KEY'} cannot be read: {error.strerror}. "
            "Make one with `trainmaster certs` and set TRAINMASTER_GATEWAY_CERTIFICATE and TRAINMASTER_GATEWAY_KEY."
        ) from error
    server.add_secure_port(settings.GATEWAY_LISTEN, grpc.ssl_server_credentials([(key, certificate)]))
