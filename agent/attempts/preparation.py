"""Prepares an attempt for its launcher: fetches and verifies its files, lays out its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from threading import Event

from agent.attempts.causes import cause_of
from agent.attempts.phases import StartPhases
from agent.attempts.records import write_record
from agent.config import Isolation
from agent.launchers import command
from agent.launchers.accounts import Account, AccountError, account_of, share
from agent.launchers.contract import CONTAINER_FOLDER, LaunchOrder
from agent.mounts import place_of
from agent.work_folder import WorkFolder
from platform_core.errors import TrainmasterError
from platform_core.jobs.ends import EndReason
from platform_core.node.wanted import ArtifactReference, Launch
from trainmaster.store.damage import is_damage


class PreparationError(Exception):
    """The attempt cannot be started here; the message is a sentence."""

    def __init__(
        self, sentence: str, end: EndReason = EndReason.LAUNCHER, resume_damaged: bool = False
    ) -> None:
        super().__init__(sentence)
        self.end, self.resume_damaged = end, resume_damaged


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts about this node that every preparation needs."""

    python: str
    inherited: dict[str, str]
    gpu_uuids: dict[int, str]  # by slot; empty on CPU slots
    interface: str
    isolation: Isolation = Isolation.NONE
    cpus_per_slot: int = 1  # what a job gets for each slot where it names nothing
    memory_per_slot_bytes: int = 0  # likewise; 0 is no limit
    gpu_share: float = 1.0  # of a GPU's memory that a slot has


RESUME = "checkpoint to resume from"
_WRONG_BYTES = ("verification_failed", "source_changed")
_PHASES = {"code bundle": "code", "dataset": "dataset", RESUME: "checkpoint", "model": "model"}

# The last argument hears of progress in bytes, and may raise to stop.
Fetch = Callable[[ArtifactReference, Path, Callable[[int], None]], None]


def prepare(
    folder: WorkFolder,
    launch: Launch,
    facts: NodeFacts,
    fetch: Fetch,
    stop: Event,
    phases: StartPhases | None = None,
) -> LaunchOrder:
    """Blocks while it fetches. What was fetched and verified before is kept, so it may be repeated."""
    phases = phases or StartPhases()
    try:
        folder.create()
        write_record(folder, launch)
    except OSError as error:
        raise PreparationError(
            f"The work folder could not be made: {error}.", _end_of(error, False)
        ) from error
    order = order_of(folder, launch, facts)
    for what, artifact, into in (
        ("code bundle", launch.code, folder.code),
        ("dataset", launch.dataset, folder.data),
        (RESUME, launch.resume, folder.resume),
        ("model", launch.model, folder.model),
    ):
        if artifact is not None:
            with phases.phase(_PHASES[what]):
                _fetch(fetch, what, artifact, into, stop)
    if order.account is not None and (stream := _stream(folder, launch)):
        share(stream, order.account)
    return order


def order_of(folder: WorkFolder, launch: Launch, facts: NodeFacts) -> LaunchOrder:
    """Of an attempt whose files are there, or will be. Raises PreparationError."""
    launch = _with_shares(launch, facts)
    account = _account(launch, facts.isolation)
    python = "python" if launch.container_image else facts.python
    try:
        argv = command.argv_of(launch, python)
    except command.CommandError as error:
        raise PreparationError(str(error), EndReason.SCRIPT_ERROR) from error
    gpus = _gpus(launch, facts)
    seen_as: PurePath = CONTAINER_FOLDER if launch.container_image else folder.path
    inherited = {} if launch.container_image else dict(facts.inherited)
    if account is not None:
        inherited |= account.environment(folder) if not launch.container_image else {}
    # A container has a /tmp of its own, which goes with it.
    tmp = None if launch.container_image else folder.tmp
    stream = _stream(folder, launch)
    place = command.Place(seen_as, python, gpus, facts.interface, inherited, tmp, stream, facts.gpu_share)
    environment = command.environment_of(launch, folder.attempt_id, place)
    return LaunchOrder(
        folder=folder,
        argv=argv,
        cwd=folder.code if launch.code is not None else folder.work,
        output=command.output_of(launch, folder.logs),
        environment=environment,
        secret_names=tuple(name for name, _ in launch.secrets),
        image=launch.container_image,
        mounted=place_of(launch.dataset.source_url) if launch.dataset and launch.mount_dataset else stream,
        gpus=gpus,
        cpus=launch.cpus_per_gpu * len(launch.slots),
        memory_bytes=launch.memory_per_gpu_bytes * len(launch.slots),
        account=account,
        standby_of=launch.job_id if command.can_stand_by(launch) else "",
        leased=not launch.when_cut_off.outlives_lease,
    )


def _stream(folder: WorkFolder, launch: Launch) -> Path | None:
    return folder.stream if launch.stream_dataset and launch.dataset is not None else None


def _with_shares(launch: Launch, facts: NodeFacts) -> Launch:
    """What the job does not name is the share of its slots of this node."""
    return replace(
        launch,
        cpus_per_gpu=launch.cpus_per_gpu or facts.cpus_per_slot,
        memory_per_gpu_bytes=launch.memory_per_gpu_bytes or facts.memory_per_slot_bytes,
    )


def _account(launch: Launch, isolation: Isolation) -> Account | None:
    if isolation is Isolation.CONTAINERS and not launch.container_image:
        raise PreparationError(
            "This node runs jobs in containers only, by its operator's setting; give the job a container_image.",
            EndReason.SCRIPT_ERROR,
        )
    if isolation is not Isolation.USER:
        return None
    try:
        return account_of(launch.team)
    except AccountError as error:
        raise PreparationError(str(error)) from error


def _fetch(fetch: Fetch, kind: str, artifact: ArtifactReference, into: Path, stop: Event) -> None:
    def on_bytes(_: int) -> None:
        if stop.is_set():
            raise InterruptedError("it was stopped")

    try:
        read_twice(lambda: fetch(artifact, into, on_bytes))
    except Exception as error:  # whatever a store or the network may raise: it is a reason, not a crash
        damaged = kind == RESUME and is_damage(error, artifact.source_url)
        trouble = trouble_with(kind, artifact, error)
        raise PreparationError(trouble, _end_of(error, damaged), resume_damaged=damaged) from error


def trouble_with(kind: str, artifact: ArtifactReference, error: Exception) -> str:
    sentence = str(error).rstrip(".") or type(error).__name__
    return f"Could not fetch {kind} {artifact.manifest_id}: {sentence}."


def _end_of(error: Exception, damaged: bool) -> EndReason:
    if damaged or (isinstance(error, TrainmasterError) and error.code in _WRONG_BYTES):
        return EndReason.DATA_REVIEW  # as every other node would find them
    cause = cause_of(f"{type(error).__name__}: {error}")
    return (
        cause.end if cause and cause.end in (EndReason.DISK_FULL, EndReason.NETWORK) else EndReason.LAUNCHER
    )


def read_twice(fetch: Callable[[], None]) -> None:
    """Whether the bytes in the store are damaged, not only those that arrived."""
    try:
        return fetch()
    except TrainmasterError as error:
        if error.code != "verification_failed":
            raise
    try:
        return fetch()
    except TrainmasterError as error:
        if error.code != "verification_failed":
            raise
        sentence = (
            f"{error.numbers['path']} was read twice and does not have the SHA-256 that its manifest says"
        )
        raise TrainmasterError("verification_failed", sentence, **error.numbers) from error


def _gpus(launch: Launch, facts: NodeFacts) -> tuple[str, ...]:
    if not facts.gpu_uuids:
        return ()
    missing = [slot for slot in launch.slots if slot not in facts.gpu_uuids]
    if missing:
        slots = ", ".join(map(str, missing))
        raise PreparationError(f"This node has no GPU in slot {slots} (any more).")
    uuids = tuple(facts.gpu_uuids[slot] for slot in launch.slots)
    if len(set(uuids)) < len(uuids):
        raise PreparationError("Its slots are shares of one GPU, which cannot be used as several.")
    return uuids
