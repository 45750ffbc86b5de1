"""This node as the session sees it: description, observed state, and the wanted state that it reconciles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from importlib import metadata
from typing import Protocol

import psutil

from agent import reconcile as actions
from agent.attempts.supervisor import RunningAttempt, Supervisor
from agent.config import AgentConfig
from agent.datasets import held, is_dataset
from agent.lease import NodeLease
from agent.probes.devices import Devices
from agent.probes.notice import Notice
from agent.probes.slots import Slots, usable_cpus
from agent.probes.system import Sampled, SystemSampler
from agent.probes.telemetry import Occupant, Probe
from agent.reconcile import reconcile
from agent.transfer.peers.credentials import NodeCredentials
from platform_core.node.description import NodeDescription, Telemetry
from platform_core.node.observed import ActivationObserved, DeploymentObserved, Observed, TransferState
from platform_core.node.wanted import ActivationWanted, DeploymentWanted, MendWanted, Wanted

log = logging.getLogger(__name__)

SAMPLE_EVERY_SECONDS = 2.0
NOTICE_EVERY_SECONDS = 2.0


class Deployments(Protocol):
    """Model versions on their way to this node. Called from the event loop; nothing blocks it."""

    def observed(self) -> tuple[DeploymentObserved, ...]: ...

    def receive(self, wanted: DeploymentWanted) -> None: ...

    def prefetch(self, wanted: DeploymentWanted) -> None: ...

    def drop(self, deployment_id: str) -> None: ...


class Activations(Protocol):
    """Which versions of the models here are in use. Called from the event loop; nothing blocks it."""

    def observed(self) -> tuple[ActivationObserved, ...]: ...

    def want(self, wanted: Iterable[ActivationWanted]) -> None: ...


class Mender(Protocol):
    """Writes back what the store has lost. Called from the event loop; nothing blocks it."""

    def want(self, mends: Iterable[MendWanted]) -> None: ...


class Hasher(Protocol):
    """Hashes files of registrations. Called from the event loop; nothing blocks it."""

    def want(self, snapshot_ids: Collection[str]) -> None: ...


class Node:
    def __init__(
        self,
        config: AgentConfig,
        slots: Slots,
        probe: Probe,
        versions: Mapping[str, str],
        lease: NodeLease,
        credentials: NodeCredentials | None = None,
        devices: Devices | None = None,
    ) -> None:
        """Without `credentials` the operator gave this node a certificate for others."""
        self._config, self._slots, self._probe, self._credentials = config, slots, probe, credentials
        self._versions, self._lease = dict(versions), lease
        self._devices = devices or Devices(None, None)
        self._wanted: Wanted | None = None
        self._changed = asyncio.Event()
        self._settling = False
        self._sample = Telemetry(0, 0)
        self._transfer_port = config.transfer_port
        self._supervisor: Supervisor | None = None
        self._deployments: Deployments | None = None
        self._leaves_at: float | None = None  # by the clock of the loop
        self._activations: Activations | None = None
        self._mender: Mender | None = None
        self._hasher: Hasher | None = None

    def attach(
        self,
        supervisor: Supervisor,
        deployments: Deployments | None,
        transfer_port: int,
        activations: Activations | None = None,
        mender: Mender | None = None,
        hasher: Hasher | None = None,
    ) -> None:
        """Adds the parts that are made after the node, because they report changes to it. Before the first session."""
        self._supervisor, self._deployments, self._activations = supervisor, deployments, activations
        self._transfer_port, self._mender, self._hasher = transfer_port, mender, hasher

    def describe(self) -> NodeDescription:
        config = self._config
        low, high = config.rendezvous_ports
        return NodeDescription(
            hostname=config.hostname,
            rack=config.rack,
            block=config.block,
            gpu_type=self._slots.gpu_type,
            slots=self._slots.slots,
            cpus=usable_cpus(),
            memory_bytes=psutil.virtual_memory().total,
            disk_bytes=psutil.disk_usage(str(config.data)).total,
            agent_version=metadata.version("trainmaster"),
            address=config.address,
            transfer_port=self._transfer_port,
            rendezvous_port_low=low,
            rendezvous_port_high=high,
            labels=dict(config.labels),
            receive_cap=config.receive_cap,
            send_cap=config.send_cap,
            versions=self._versions,
            hardware_faults=self._slots.faults,
            holds_ready_files=True,
        )

    def certificate_request(self) -> bytes:
        return self._credentials.request() if self._credentials is not None else b""

    def certified(self, certificate: bytes, authority: bytes) -> None:
        if self._credentials is not None:
            self._credentials.accept(certificate, authority)

    def counts_as_lost_after(self, lost_ms: int) -> None:
        self._lease.last(lost_ms)

    def acknowledged(self, sent_ms: int) -> bool:
        held = self._lease.acknowledge(sent_ms)
        if not held:
            self._wanted = None  # since then it may have been placed elsewhere
        return held

    def holds_lease(self) -> bool:
        return self._lease.holds()

    def observed(self) -> Observed:
        return Observed(
            attempts=self._supervisor.observed() if self._supervisor is not None else (),
            deployments=self._deployments_observed(),
            activations=self._activations.observed() if self._activations is not None else (),
        )

    def _deployments_observed(self) -> tuple[DeploymentObserved, ...]:
        """Without the deliveries of datasets, which no deployment of the server wants."""
        every = self._deployments.observed() if self._deployments is not None else ()
        return tuple(part for part in every if not is_dataset(part.deployment_id))

    def want(self, wanted: Wanted) -> None:
        self._wanted = wanted
        if self._supervisor is not None:
            self._supervisor.learn(wanted)
        self.note_change()

    def note_change(self) -> None:
        """Something is wanted or observed that was not before. On the event loop; many at once settle together."""
        self._changed.set()
        if not self._settling:
            self._settling = True
            asyncio.get_running_loop().call_soon(self._settle)

    def _settle(self) -> None:
        self._settling = False
        if self._wanted is None or self._supervisor is None:
            return  # with the server away since the start nobody knows what is wanted: leave all as it is
        for action in reconcile(self._wanted, self.observed()):
            self._carry_out(action, self._supervisor)
        if self._activations is not None:
            self._activations.want(self._wanted.activations)
        if self._mender is not None:
            self._mender.want(self._wanted.mends)
        if self._hasher is not None:
            self._hasher.want(() if self._wanted.attempts else self._wanted.hashing)

    def _carry_out(self, action: actions.Action, supervisor: Supervisor) -> None:
        match action:
            case actions.StartAttempt():
                supervisor.start(action)
            case actions.StopAttempt():
                supervisor.stop(action)
            case actions.ForgetAttempt():
                supervisor.forget(action)
            case actions.ReceiveDeployment(wanted=wanted) if self._deployments is not None and is_dataset(
                wanted.deployment_id
            ):
                self._deployments.prefetch(wanted)
            case actions.ReceiveDeployment() if self._deployments is not None:
                self._deployments.receive(action.wanted)
            case actions.DropDeployment() if self._deployments is not None:
                self._deployments.drop(action.deployment_id)
                self.note_change()

    def telemetry(self) -> Telemetry:
        models = [
            part.acting_on.artifact.manifest_id
            for part in self._deployments_observed()
            if part.acting_on is not None and part.state is TransferState.COMPLETE
        ]
        sample = replace(self._sample, holds=tuple(dict.fromkeys((*self._sample.holds, *models))))
        return self._devices.added_to(sample)

    def clock_differs(self, by_ms: float) -> None:
        self._devices.clock_offset_ms = by_ms

    def notice_seconds(self) -> int | None:
        """Seconds until this machine is taken away; None without such a notice."""
        if self._leaves_at is None:
            return None
        return max(0, round(self._leaves_at - asyncio.get_running_loop().time()))

    def duties(self, sampler: SystemSampler) -> list[Coroutine[None, None, None]]:
        """What the node does for ever beside its session."""
        duties = [self.sample(), *self._devices.duties()]
        if self._config.system_interval_seconds:
            duties.append(self.sample_system(sampler))
        if self._config.notice_url or self._config.notice:
            duties.append(self.watch_notice())
        return duties

    async def watch_notice(self) -> None:
        """For ever. A notice is never taken back."""
        config, seconds = self._config, self._config.notice_seconds
        notice = Notice(config.notice, config.notice_url, config.notice_address)
        while True:
            if self._leaves_at is None and await asyncio.to_thread(notice.is_given):
                self._leaves_at = asyncio.get_running_loop().time() + seconds
                log.warning(
                    "this machine is taken away in %s s, says %s", seconds, config.notice or config.notice_url
                )
            await asyncio.sleep(NOTICE_EVERY_SECONDS)

    async def changed(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    async def sample(self) -> None:
        """For ever. Apart from the heartbeat, which must not wait for a driver that hangs."""
        while True:
            running = self._supervisor.running() if self._supervisor is not None else ()
            occupants = [Occupant(attempt.launch.slots, attempt.pid) for attempt in running]
            try:
                sample = await asyncio.to_thread(self._probe.read, occupants)
                self._sample = replace(sample, holds=await asyncio.to_thread(held, self._config.data))
            except Exception:
                log.exception("the telemetry could not be read")
            await asyncio.sleep(SAMPLE_EVERY_SECONDS)

    async def sample_system(self, sampler: SystemSampler) -> None:
        """For ever: the system series of the running attempts."""
        while True:
            await asyncio.sleep(self._config.system_interval_seconds)
            running = self._supervisor.running() if self._supervisor is not None else ()
            try:
                await asyncio.to_thread(sampler.sample, [_sampled(attempt) for attempt in running])
            except Exception:
                log.exception("the system series could not be sampled")


def _sampled(attempt: RunningAttempt) -> Sampled:
    launch = attempt.launch
    return Sampled(attempt.folder, launch.slots, attempt.pid, launch.node_rank, launch.nodes)
