"""The agent put together, and its life from start to leave."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import fcntl
import logging
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial

import grpc
import grpc.aio

from agent import artifacts
from agent.attempts.life import Tools
from agent.attempts.preparation import Fetch, NodeFacts
from agent.attempts.supervisor import Supervisor
from agent.channel import open_channel, peer_credentials
from agent.config import AgentConfig, ConfigError, Isolation, engine_environment, inherited_environment
from agent.datasets import DatasetCache
from agent.exposition import Snapshot, on_loop
from agent.hashing import Hasher
from agent.launchers.container import ContainerLauncher
from agent.launchers.engine import Engine
from agent.launchers.process import ProcessLauncher
from agent.lease import NodeLease
from agent.manifests import Manifests, ask_platform
from agent.mending import Mender
from agent.mounts import mounting
from agent.node import Node
from agent.probes.devices import Devices
from agent.probes.gpus import Nvml
from agent.probes.host_health import HostHealth
from agent.probes.network import interface_of, link_bytes_per_second
from agent.probes.profiling import DcgmExporter
from agent.probes.slots import Slots, find_slots, usable_cpus, usable_memory
from agent.probes.system import SystemSampler
from agent.probes.telemetry import Probe
from agent.probes.toolchain import Toolchain, ask
from agent.resumes import Resumes
from agent.session import Session
from agent.streaming import StreamOf, beginning, stream_of
from agent.transfer.disk.cache import Watermarks
from agent.transfer.orders.activation import Activations
from agent.transfer.orders.deployments import Deployments, Trust
from agent.transfer.orders.hooks import Hooks
from agent.transfer.orders.pull import Trying
from agent.transfer.peers.credentials import NodeCredentials
from agent.transfer.peers.neighbour import Security
from agent.uplink.checkpoint_files import Pace, PartUploader
from agent.uplink.push import Pusher
from agent.work_folder import WorkFolders
from platform_core.node.wanted import Launch
from trainmaster.process_metrics import serve

log = logging.getLogger(__name__)


LEAVE_SECONDS = 15
YIELD_EVERY_SECONDS = 1.0


class AlreadyRunning(Exception):
    """Another agent works in this data folder."""


async def run(config: AgentConfig) -> None:
    """Until SIGTERM or SIGINT; what it started goes on. Raises Refused when the server refuses this node."""
    config.data.mkdir(parents=True, exist_ok=True)
    _close_to_others(config)
    with _alone_in(config):
        uploads = ThreadPoolExecutor(2, thread_name_prefix="upload")
        channel = open_channel(config)
        try:
            await _serve(config, channel, uploads)
        finally:
            await channel.close(grace=None)
            uploads.shutdown(wait=False, cancel_futures=True)


def _close_to_others(config: AgentConfig) -> None:
    """Logs, code and data of the jobs lie here, and the credential. Teams' users pass to their own folders only."""
    if config.isolation is not Isolation.USER:
        os.chmod(config.data, 0o700)
        return
    closed = next((folder for folder in config.data.parents if not folder.stat().st_mode & 0o001), None)
    if closed is not None:
        raise ConfigError(
            f"With isolation by user, jobs must reach their folders below {config.data}, and {closed} lets no other"
            f" user through: chmod o+x {closed}, or choose another --data."
        )
    os.umask(0o077)
    attempts = config.data / "attempts"
    attempts.mkdir(exist_ok=True)
    for path in config.data.iterdir():
        if not path.is_symlink():
            os.chmod(path, path.stat().st_mode & 0o700)
    for folder in (config.data, attempts):
        os.chmod(folder, 0o711)  # noqa: S103 - to pass through, not to list


async def _serve(config: AgentConfig, channel: grpc.aio.Channel, uploads: Executor) -> None:
    exporter = DcgmExporter(config.dcgm_exporter) if config.dcgm_exporter else None
    nvml = Nvml.open(exporter)
    slots = find_slots(nvml, config.slots, config.gpu_type, config.island_slots, config.gpu_shares)
    shown, trusted = peer_credentials(config)
    credentials = NodeCredentials(config.data) if trusted is None else None
    inherited = inherited_environment(config.job_environment)
    toolchain = await asyncio.to_thread(ask, config.python, inherited)
    versions = toolchain.versions | ({"driver": driver} if nvml and (driver := nvml.driver_version()) else {})
    lease = NodeLease(config.data / "lease")
    devices = _devices(config, slots, nvml, exporter)
    node = Node(config, slots, Probe(slots, nvml, config.data), versions, lease, credentials, devices)
    session = Session(config, channel, node)
    pusher = Pusher(channel, session.identity)
    devices.uploads_waiting_ms = pusher.uploads_waiting_ms
    manifests = Manifests(config.data, partial(ask_platform, config.server, channel, session.identity))
    datasets = DatasetCache(config.data)
    resumes = Resumes(config.data, manifests, whole=config.isolation is Isolation.USER)
    await asyncio.to_thread(resumes.clean_up)
    streams = partial(stream_of, datasets.home, config.stream_disk)
    fetch_for = partial(_fetch_for, manifests, datasets, resumes, streams)
    pace = _pace(config)
    facts = _facts(config, slots, toolchain, inherited)
    tools = _tools(config, facts, lease, fetch_for, streams, pusher, uploads, pace, node.note_change, resumes)
    supervisor = Supervisor(WorkFolders(config.data), tools)
    hooks = Hooks(config.hooks, inherited)
    activations = Activations(config.data, hooks, lambda *held: deployments.holds(*held), node.note_change)
    deployments = _deployments(
        config, manifests, _trust(credentials, trusted), activations, datasets, node.note_change
    )
    datasets.attach(deployments)
    port = await _start(deployments, config, shown if credentials is None else credentials.server())
    await asyncio.to_thread(activations.load)
    mender, hasher = Mender(deployments.held), Hasher(channel, session.identity)
    node.attach(supervisor, deployments, port, activations, mender, hasher)
    await supervisor.adopt_all()
    _expose(config, partial(_snapshot, config, slots, node, session, pusher))
    _log_slots(slots)
    sampler = SystemSampler(slots, nvml, config.data, config.log_cap_bytes)
    duties = (
        session.run(), pusher.run(), _yield_to_models(pace, deployments), *node.duties(sampler),
    )  # fmt: skip
    tasks = [asyncio.create_task(work) for work in duties]
    leave, stop_jobs = asyncio.create_task(_asked_to_leave()), False
    try:
        await asyncio.wait([leave, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()  # raises why it ended: none of them ends in peace
        stop_jobs = config.stop_jobs_on_leave
        # All that matters is on disk: rather gone without a goodbye than not gone. The stacks say what held it.
        faulthandler.dump_traceback_later(LEAVE_SECONDS, exit=True)
        log.info("leaving; running attempts %s", "are stopped" if stop_jobs else "go on")
    finally:
        for task in [leave, *tasks]:
            task.cancel()
        await asyncio.gather(leave, *tasks, return_exceptions=True)
        await supervisor.let_go(stop_jobs)
        await activations.close()
        await deployments.close()


async def _start(deployments: Deployments, config: AgentConfig, own: grpc.ServerCredentials | None) -> int:
    """The port that transfers come to. Raises ConfigError where it is taken."""
    try:
        return await deployments.start(_bind_host(config.address), config.transfer_port, own)
    except OSError as error:
        await deployments.close()
        raise ConfigError(f"{error}. Choose another with --transfer-port, or 0 for a free one.") from error


def _devices(config: AgentConfig, slots: Slots, nvml: Nvml | None, exporter: DcgmExporter | None) -> Devices:
    indices = sorted({slots.gpu_of(slot.index) for slot in slots.slots})
    gpus = nvml.health(indices) if nvml and slots.are_gpus else None
    return Devices(gpus, HostHealth(config.data), exporter, slots.gpu_of)


def _log_slots(slots: Slots) -> None:
    log.info("%s slots of %s", len(slots.slots), slots.gpu_type)
    for fault in slots.faults:
        log.error("%s", fault)


def _expose(config: AgentConfig, take: Callable[[], Snapshot]) -> None:
    if not config.metrics_listen:
        return
    families = on_loop(take, asyncio.get_running_loop())
    try:
        log.info("metrics at %s", serve(config.metrics_listen, config.metrics_token, families).url)
    except (OSError, ValueError) as error:
        raise ConfigError(f"metrics_listen is {config.metrics_listen}: {error}.") from error


def _snapshot(config: AgentConfig, slots: Slots, node: Node, session: Session, pusher: Pusher) -> Snapshot:
    waiting = pusher.uploads_waiting_ms()
    seen = node.telemetry(), node.observed()
    return Snapshot(config.hostname, slots.gpu_type, session.is_connected, waiting, *seen)


def _fetch_for(
    manifests: Manifests, datasets: DatasetCache, resumes: Resumes, streams: StreamOf, launch: Launch
) -> Fetch:
    """How the files of this launch come to the node: by the cache of datasets, links to shared folders, copies of
    checkpoints on this node, the store."""
    usual = datasets.fetch_for(launch, resumes.fetch_for(launch, partial(artifacts.fetch, manifests)))
    return beginning(streams, manifests, launch, mounting(manifests, launch, usual))


def _facts(config: AgentConfig, slots: Slots, toolchain: Toolchain, inherited: dict[str, str]) -> NodeFacts:
    return NodeFacts(
        python=config.python,
        inherited=inherited,
        gpu_uuids=slots.gpu_uuids,
        gpu_share=1 / slots.shares,
        interface=interface_of(config.address),
        isolation=config.isolation,
        cpus_per_slot=max(1, usable_cpus() // max(1, len(slots.slots))),
        memory_per_slot_bytes=usable_memory() // max(1, len(slots.slots)),
    )


def _tools(
    config: AgentConfig,
    facts: NodeFacts,
    lease: NodeLease,
    fetch_for: Callable[[Launch], Fetch],
    streams: StreamOf,
    pusher: Pusher,
    executor: Executor,
    pace: Pace,
    changed: Callable[[], None],
    resumes: Resumes,
) -> Tools:
    return Tools(
        facts=facts,
        fetch_for=fetch_for,
        stream_of=streams,
        uploader=partial(artifacts.upload_with, PartUploader(pace)),
        pusher=pusher,
        executor=executor,
        process_launcher=ProcessLauncher(lease.path, config.standby_free),
        container_launcher=ContainerLauncher(Engine(config.engine, engine_environment()), lease.path),
        log_cap_bytes=config.log_cap_bytes,
        upload_limit_seconds=config.upload_limit_seconds,
        hang_floor_seconds=config.hang_floor_seconds,
        changed=changed,
        resumes=resumes,
    )


def _deployments(
    config: AgentConfig,
    manifests: Manifests,
    trust: Trust,
    activations: Activations,
    datasets: DatasetCache,
    changed: Callable[[], None],
) -> Deployments:
    caps = (config.receive_cap, config.send_cap)
    marks = Watermarks(config.cache_low, config.cache_high)
    return Deployments(
        config.data, manifests, changed, trust, caps, Trying(store_silence=config.store_silence), marks,
        in_use=lambda: (*activations.in_use(), *datasets.in_use()), vacate=activations.vacate,
    )  # fmt: skip


def _pace(config: AgentConfig) -> Pace:
    link = config.send_cap or link_bytes_per_second(interface_of(config.address))
    return Pace(link * config.checkpoint_share / 100)


async def _yield_to_models(pace: Pace, deployments: Deployments) -> None:
    """For ever: uploads of checkpoints slow down while a model comes in or goes out."""
    while True:
        pace.yields = any(part.rate_in or part.rate_out for part in deployments.observed())
        await asyncio.sleep(YIELD_EVERY_SECONDS)


def _trust(credentials: NodeCredentials | None, trusted: grpc.ChannelCredentials | None) -> Trust:
    """The platform's authority, unless the operator has one of their own."""
    return (
        Trust(Security(trusted))
        if credentials is None
        else Trust(credentials.security, credentials.is_signed)
    )


def _bind_host(address: str) -> str:
    """A node that others reach by loopback only is part of a platform on one machine: it stays inside."""
    return "127.0.0.1" if address in ("127.0.0.1", "localhost") else "0.0.0.0"  # noqa: S104 - meant


async def _asked_to_leave() -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    await asked.wait()


@contextlib.contextmanager
def _alone_in(config: AgentConfig) -> Iterator[None]:
    """Two agents in one folder would both act on every attempt in it."""
    path = config.data / "agent.lock"
    with open(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AlreadyRunning(f"Another agent already works in {config.data}.") from None
        yield
