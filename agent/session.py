"""The long conversation with the gateway: what is observed goes up, what is wanted comes down."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from functools import partial
from typing import Any, Protocol, cast

import grpc
import grpc.aio

from agent import identity as identities
from agent.channel import Refused, authorisation, is_shut_out, sentence_of, trouble_of
from agent.config import AgentConfig
from agent.enrolment import join
from agent.identity import Identity
from agent.launchers.lease import boot_ms
from platform_core.node.description import NodeDescription, Telemetry
from platform_core.node.observed import Observed
from platform_core.node.wanted import Wanted
from trainmaster import gate, structured_logs
from trainmaster_wire.agent.v1 import session_pb2 as pb
from trainmaster_wire.agent.v1 import session_pb2_grpc
from trainmaster_wire.conversion import from_wire, to_wire

log = logging.getLogger(__name__)

DEFAULT_HEARTBEAT_SECONDS = 3
WELCOME_TIMEOUT_SECONDS = 20
ACKNOWLEDGED_WITHIN_SECONDS = 20
LONGEST_ANSWER_SECONDS = 1.0  # of the server to a heartbeat by which clocks are compared
SHORTEST_BETWEEN_REPORTS_SECONDS = 0.1


class NodeSide(Protocol):
    """What the session asks of the node. All of it is called from the event loop and must not block."""

    def describe(self) -> NodeDescription: ...

    def observed(self) -> Observed: ...

    def certificate_request(self) -> bytes:
        """Empty when this node has a certificate from elsewhere."""

    def certified(self, certificate: bytes, authority: bytes) -> None: ...

    def counts_as_lost_after(self, lost_ms: int) -> None:
        """Of silence, by the platform's setting."""

    def acknowledged(self, sent_ms: int) -> bool:
        """The platform has heard what was sent then, by the clock of `boot_ms`. False: the lease had run out before,
        and what was wanted is forgotten."""

    def holds_lease(self) -> bool:
        """Whether what is heard now may be carried out."""

    def want(self, wanted: Wanted) -> None:
        """The newest wanted state; called again with the same one after a reconnect."""

    def telemetry(self) -> Telemetry:
        """The newest sample."""

    def notice_seconds(self) -> int | None:
        """Seconds until this machine is taken away; None without such a notice."""

    def clock_differs(self, by_ms: float) -> None:
        """How far this node's clock is ahead of the platform's, or behind."""

    async def changed(self) -> None:
        """Returns when `observed` may differ from what it was at the last call."""


class Backoff:
    """Waits that double up to a limit, each drawn at random so that a cluster does not come back as one."""

    def __init__(self, first: float = 0.5, longest: float = 20.0) -> None:
        self._first, self._longest = first, longest
        self._next = first

    def reset(self) -> None:
        self._next = self._first

    def draw(self) -> float:
        wait = random.uniform(self._next / 2, self._next)
        self._next = min(self._longest, self._next * 2)
        return wait


class Session:
    """Joins if need be, connects, reconnects; ends only by cancellation or by raising Refused."""

    def __init__(self, config: AgentConfig, channel: grpc.aio.Channel, node: NodeSide) -> None:
        self._config = config
        self._channel = channel
        self._node = node
        self._revision = 0
        self._welcome = asyncio.Event()
        self._heartbeat_seconds: float = DEFAULT_HEARTBEAT_SECONDS
        self._backoff = Backoff()
        self._trouble = ""
        self._beat_sent: tuple[int, float] = (0, 0.0)  # sequence, and when, by this node's clock
        self._unacknowledged: dict[
            int, int
        ] = {}  # sequence, 0 for the hello → when it was sent, by `boot_ms`
        self._joined: asyncio.Future[Identity] = asyncio.get_running_loop().create_future()

    async def identity(self) -> Identity:
        """Who this node is; waits until it has joined."""
        return await asyncio.shield(self._joined)

    @property
    def is_connected(self) -> bool:
        """Whether the gateway has welcomed this agent, and nothing has ended that since."""
        return self._welcome.is_set()

    async def run(self) -> None:
        while True:
            rival = False  # whether another session ended this one
            try:
                if not self._joined.done():
                    self._joined.set_result(await self._identify())
                    structured_logs.always(node=self._joined.result().node_id)
                await self._converse(self._joined.result())
                trouble = f"{self._config.server} closed the session"
            except grpc.aio.AioRpcError as error:
                if is_shut_out(error):
                    raise Refused(self._refusal(error)) from error
                trouble = trouble_of(self._config.server, error)
                rival = error.code() is grpc.StatusCode.ABORTED
            except ConnectionError as error:
                trouble = f"{self._config.server} went away: {error}"
            except TimeoutError:
                trouble = f"{self._config.server} did not answer in {WELCOME_TIMEOUT_SECONDS} s"
            # Two agents with one credential would end each other without pause.
            if self._welcome.is_set() and not rival:
                self._backoff.reset()
            await self._wait(trouble)

    async def _wait(self, trouble: str) -> None:
        """Says what is wrong once, not at every attempt."""
        self._welcome.clear()
        level = logging.DEBUG if trouble == self._trouble else logging.WARNING
        self._trouble = trouble
        wait = self._backoff.draw()
        log.log(level, "%s; trying again until it answers", trouble)
        await asyncio.sleep(wait)

    async def _identify(self) -> Identity:
        known = identities.load(self._config.data)
        if known is not None and not self._config.rejoin:
            return known
        joined = await join(self._channel, self._config, self._node.describe())
        log.info("joined %s as %s", self._config.server, joined.node_id)
        return joined

    def _refusal(self, error: grpc.aio.AioRpcError) -> str:
        return (
            f"{self._config.server} refuses this node: {sentence_of(error)}. Running jobs go on. To take the"
            " node in again, make a bootstrap token on the nodes page and start the agent with"
            " --rejoin --token TOKEN."
        )

    async def _converse(self, identity: Identity) -> None:
        """One connection's life; raises what ended it, returns when the server closed it in peace."""
        self._welcome.clear()
        stub = session_pb2_grpc.AgentSessionStub(self._channel)
        call: Any = cast(Any, stub).Connect(metadata=authorisation(identity))
        listening = asyncio.create_task(self._listen(call))
        speaking = asyncio.create_task(self._speak(call))
        expecting = asyncio.create_task(self._expect_acknowledgements())
        tasks = (listening, speaking, expecting)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if speaking.done() and isinstance(speaking.exception(), ConnectionError):
                # A failed write says only that the call is over; the reading side knows why.
                await asyncio.wait({listening}, timeout=5)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            call.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, call: Any) -> None:
        async for message in call:
            kind = message.WhichOneof("message")
            if kind == "welcome":
                self._heartbeat_seconds = message.welcome.heartbeat_seconds or DEFAULT_HEARTBEAT_SECONDS
                self._revision = 0  # revisions count within a session: a restored server may start lower
                if message.welcome.lost_after_ms:
                    self._node.counts_as_lost_after(message.welcome.lost_after_ms)
                if (sent_ms := self._unacknowledged.pop(0, None)) is not None:
                    self._node.acknowledged(sent_ms)
                gate.install(partial(gate.addresses, allowed=tuple(message.welcome.outbound_hosts)))
                if message.welcome.certificate:
                    self._node.certified(message.welcome.certificate, message.welcome.authority)
                self._welcome.set()
                self._trouble = ""
                log.info("connected to %s as %s", self._config.server, message.welcome.node_id)
            elif kind == "heartbeat_ack":
                self._compare_clocks(message.heartbeat_ack)
                self._acknowledge(message.heartbeat_ack.sequence)
            elif kind == "wanted" and message.wanted.revision >= self._revision:
                if not self._node.holds_lease():
                    raise ConnectionError("what it wants came too late to be trusted")
                self._revision = message.wanted.revision
                self._node.want(from_wire(Wanted, message.wanted))

    async def _speak(self, call: Any) -> None:
        self._unacknowledged = {0: boot_ms()}
        await self._write(
            call,
            pb.FromAgent(
                hello=pb.Hello(
                    node=to_wire(self._node.describe()),
                    observed=to_wire(self._node.observed()),
                    certificate_request=self._node.certificate_request(),
                )
            ),
        )
        async with asyncio.timeout(WELCOME_TIMEOUT_SECONDS):
            await self._welcome.wait()
        clock = asyncio.get_running_loop().time
        sequence, next_beat = 0, clock()
        changed = asyncio.create_task(self._node.changed())
        try:
            while True:
                await asyncio.wait({changed}, timeout=max(0.0, next_beat - clock()))
                if changed.done():
                    await self._write(call, pb.FromAgent(observed=to_wire(self._node.observed())))
                    changed = asyncio.create_task(self._changed_again())
                if clock() >= next_beat:
                    sequence, next_beat = sequence + 1, clock() + self._heartbeat_seconds
                    heartbeat = pb.Heartbeat(
                        sequence=sequence,
                        telemetry=to_wire(self._node.telemetry()),
                        notice_seconds=self._node.notice_seconds(),
                    )
                    self._beat_sent = (sequence, time.time())
                    self._unacknowledged[sequence] = boot_ms()
                    await self._write(call, pb.FromAgent(heartbeat=heartbeat))
        finally:
            changed.cancel()

    def _acknowledge(self, sequence: int) -> None:
        """Heartbeats are acknowledged in their order."""
        sent_ms = self._unacknowledged.get(sequence)
        self._unacknowledged = {
            beat: moment for beat, moment in self._unacknowledged.items() if beat > sequence
        }
        if sent_ms is not None and not self._node.acknowledged(sent_ms):
            raise ConnectionError("no heartbeat was acknowledged until the lease of this node had run out")

    async def _expect_acknowledgements(self) -> None:
        """Gives up a connection that lets through one way alone."""
        await self._welcome.wait()
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            oldest_ms = min(self._unacknowledged.values(), default=boot_ms())
            if boot_ms() - oldest_ms > ACKNOWLEDGED_WITHIN_SECONDS * 1000:
                raise ConnectionError(f"no heartbeat was acknowledged for {ACKNOWLEDGED_WITHIN_SECONDS} s")

    def _compare_clocks(self, ack: pb.HeartbeatAck) -> None:
        """The server's clock was read between the heartbeat and now; a slow answer says too little."""
        sequence, sent = self._beat_sent
        took = time.time() - sent
        if ack.at_ms and ack.sequence == sequence and 0 <= took < LONGEST_ANSWER_SECONDS:
            self._node.clock_differs((sent + took / 2) * 1000 - ack.at_ms)

    async def _changed_again(self) -> None:
        await asyncio.sleep(SHORTEST_BETWEEN_REPORTS_SECONDS)
        await self._node.changed()

    async def _write(self, call: Any, message: pb.FromAgent) -> None:
        try:
            await call.write(message)
        except (asyncio.InvalidStateError, grpc.aio.AioRpcError) as error:
            raise ConnectionError("the call is over") from error
