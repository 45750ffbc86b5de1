"""Which version of a model is in use on this node: a link to its folder, switched at once, back when a hook fails.

What is wanted is a level, not a command: `next_step` says what is to be done, and again nothing when it is done.

| wanted, and here?          | record of this order       | step                                             |
|----------------------------|----------------------------|--------------------------------------------------|
| none                       | any                        | Unlink                                           |
| not here, or not verified  | any                        | none: what is in use stays                       |
| here                       | none, or cut off in it     | Switch: link, hook, and back when the hook fails |
| here                       | failed                     | none, until the revision grows                   |
| here                       | active, the link elsewhere | Switch                                           |
| here                       | active, a round is asked   | RunCheck                                         |
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from agent.files import read_json, write_atomically
from agent.transfer.orders.hooks import NOT_ALLOWED, Ended, Hooks
from agent.transfer.orders.receiver import home_of
from platform_core.distribution.content.tiling import check_path
from platform_core.errors import TrainmasterError
from platform_core.node.observed import ActivationObserved, ActivationState
from platform_core.node.wanted import ActivationWanted

log = logging.getLogger(__name__)

_SWITCHING, _ACTIVE, _FAILED = ActivationState.SWITCHING, ActivationState.ACTIVE, ActivationState.FAILED


@dataclass(frozen=True, slots=True)
class Record:
    """The newest order for one model and what came of it. `before`: the version to go back to, "" is none."""

    seen: ActivationObserved
    before: str = ""


@dataclass(frozen=True, slots=True)
class Unlink:
    pass


@dataclass(frozen=True, slots=True)
class Switch:
    wanted: ActivationWanted


@dataclass(frozen=True, slots=True)
class RunCheck:
    wanted: ActivationWanted


def next_step(
    wanted: ActivationWanted | None, record: Record | None, here: bool, linked: str
) -> Unlink | Switch | RunCheck | None:
    """Pure: see the table above. `here`: the wanted version is complete on this node. `linked`: the one in use."""
    if wanted is None:
        return None if record is None else Unlink()
    if not here:
        return None
    seen = record.seen if record is not None else None
    if seen is None or (seen.deployment_id, seen.revision) != (wanted.deployment_id, wanted.revision):
        return Switch(wanted)
    if seen.state is _SWITCHING or (seen.state is _ACTIVE and linked != wanted.version):
        return Switch(wanted)
    asked = bool(wanted.health_check) and seen.state is _ACTIVE and wanted.round > seen.round
    return RunCheck(wanted) if asked else None


def _stays_inside(wanted: ActivationWanted) -> bool:
    try:
        return bool(check_path(wanted.model) and check_path(wanted.version))
    except TrainmasterError as error:
        log.error("an order to switch is ignored: %s", error)
        return False


class Activations:
    """The calls of the session (`observed`, `want`) never block. Orders of one model are carried out in turn."""

    def __init__(
        self, data: Path, hooks: Hooks, here: Callable[[str, str], bool], changed: Callable[[], None]
    ) -> None:
        """`here` tells whether a version of a model is complete on this node."""
        self._data, self._hooks, self._here, self._changed = data, hooks, here, changed
        self._folder = data / "transfer" / "activations"
        self._records: dict[str, Record] = {}
        self._wanted: dict[str, ActivationWanted] | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def load(self) -> None:
        """Blocking. What earlier processes did; a switch in which one died is made again when it is ordered."""
        for path in sorted(self._folder.rglob("*.json")):
            document = read_json(path)
            try:
                assert document is not None
                seen = ActivationObserved(
                    **{**document["seen"], "state": ActivationState(document["seen"]["state"])}
                )
                self._records[seen.model] = Record(seen, str(document["before"]))
            except (AssertionError, KeyError, TypeError, ValueError):
                path.unlink(missing_ok=True)

    async def close(self) -> None:
        """A command under way is ended; the next start runs it again."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def observed(self) -> tuple[ActivationObserved, ...]:
        return tuple(self._records[model].seen for model in sorted(self._records))

    def want(self, wanted: Iterable[ActivationWanted]) -> None:
        """The whole of it. Called again whenever something has changed, also when a version has arrived."""
        self._wanted = {order.model: order for order in wanted if _stays_inside(order)}
        for model in self._wanted.keys() | self._records.keys():
            if model not in self._tasks and self._next(model) is not None:
                self._begin(model)

    def in_use(self) -> frozenset[Path]:
        """The folders of versions that are active, are about to be, or would be gone back to: never to be evicted."""
        named = {
            (model, version) for model, r in self._records.items() for version in (r.seen.version, r.before)
        }
        for each in (self._wanted or {}).values():
            named |= {(each.model, each.version), (each.model, each.previous_version)}
        return frozenset(home_of(model, version, self._data) for model, version in named if version)

    async def vacate(self, model: str, version: str) -> None:
        """Before this version is removed: what is wanted instead takes its place, else the link goes."""
        while (task := self._tasks.get(model)) is not None:
            await asyncio.gather(task, return_exceptions=True)
        record = self._records.get(model)
        if record is not None and record.seen.version == version:
            await asyncio.to_thread(self._unlink, model)

    # -- carrying out

    def _next(self, model: str) -> Unlink | Switch | RunCheck | None:
        if self._wanted is None:
            return None  # since the start nobody has said what is wanted
        wanted = self._wanted.get(model)
        here = wanted is not None and self._here(wanted.model, wanted.version)
        return next_step(wanted, self._records.get(model), here, self._linked(model))

    def _begin(self, model: str) -> None:
        self._tasks[model] = asyncio.create_task(self._settle(model))

    async def _settle(self, model: str) -> None:
        """Steps until none is left; what is wanted may change in between."""
        try:
            await self._steps(model)
        finally:
            del self._tasks[model]

    async def _steps(self, model: str) -> None:
        while (step := self._next(model)) is not None:
            try:
                match step:
                    case Unlink():
                        await asyncio.to_thread(self._unlink, model)
                    case Switch(wanted):
                        await self._switch(wanted)
                    case RunCheck(wanted):
                        await self._check(wanted)
            except (OSError, TrainmasterError) as error:
                log.exception("%s cannot be switched", model)
                if not self._failed(step, str(error)):
                    return  # until something changes
            self._changed()

    async def _switch(self, wanted: ActivationWanted) -> None:
        record = self._records.get(wanted.model)
        linked = await asyncio.to_thread(self._linked, wanted.model)
        cut_off = record is not None and record.seen.state is _SWITCHING
        back_to = record.before if record is not None and cut_off else linked
        earlier = record.before if record is not None else ""
        seen = ActivationObserved(
            wanted.model, wanted.version, wanted.deployment_id, wanted.revision, _SWITCHING
        )
        # Written before the link is switched: whoever starts after a crash knows where it may point to.
        await asyncio.to_thread(self._keep, Record(seen, back_to))
        self._changed()
        await asyncio.to_thread(self._link, wanted.model, wanted.version)
        ended = await self._run(wanted.hook, wanted, back_to) if wanted.hook else Ended(0, "")
        seen = replace(seen, state=_ACTIVE, exit_code=ended.exit_code, output=ended.output)
        if ended.exit_code:
            seen = replace(seen, state=_FAILED)
            # On the way back there is nothing to go back to: the version that was left was left for a reason.
            if not (earlier and wanted.version == earlier and not cut_off):
                await asyncio.to_thread(self._link, wanted.model, back_to)
                seen, back_to = replace(seen, version=back_to), earlier
        before = back_to if back_to != wanted.version else earlier
        await asyncio.to_thread(self._keep, Record(seen, before))

    async def _check(self, wanted: ActivationWanted) -> None:
        record = self._records[wanted.model]
        ended = await self._run(wanted.health_check, wanted, record.before)
        seen = replace(
            record.seen, round=wanted.round, check_exit_code=ended.exit_code, check_output=ended.output
        )
        await asyncio.to_thread(self._keep, replace(record, seen=seen))

    async def _run(self, name: str, wanted: ActivationWanted, before: str) -> Ended:
        variables = {
            "TRAINMASTER_MODEL": wanted.model,
            "TRAINMASTER_VERSION": wanted.version,
            "TRAINMASTER_PREVIOUS_VERSION": before,
            "TRAINMASTER_MODEL_FOLDER": str(home_of(wanted.model, wanted.version, self._data)),
            "TRAINMASTER_ACTIVE_LINK": str(self.link_of(wanted.model)),
            "TRAINMASTER_DEPLOYMENT": wanted.deployment_id,
        }
        return await self._hooks.run(name, variables, wanted.command_seconds)

    def _failed(self, step: Unlink | Switch | RunCheck, why: str) -> bool:
        """Reports a failed disk as a failed command. False for a step of which nobody would hear."""
        if isinstance(step, Unlink):
            return False
        wanted, record = step.wanted, self._records.get(step.wanted.model)
        if isinstance(step, RunCheck) and record is not None:
            seen = replace(record.seen, round=wanted.round, check_exit_code=NOT_ALLOWED, check_output=why)
        else:
            seen = ActivationObserved(
                wanted.model, self._linked(wanted.model), wanted.deployment_id, wanted.revision, _FAILED,
                NOT_ALLOWED, why,
            )  # fmt: skip
        self._records[wanted.model] = Record(seen, record.before if record is not None else "")
        return True

    # -- the disk

    def link_of(self, model: str) -> Path:
        return self._data / "active" / check_path(model)

    def _link(self, model: str, version: str) -> None:
        """Blocking. Whoever opens the link finds the old version or the new one, also after a power cut."""
        link = self.link_of(model)
        if not version:
            link.unlink(missing_ok=True)
            with suppress(OSError):  # the team's folder goes with its last link
                link.parent.rmdir()
            return
        link.parent.mkdir(parents=True, exist_ok=True)
        temporary = link.with_name(f".{link.name}.new")
        temporary.unlink(missing_ok=True)
        # Relative, so that the folder may be mounted elsewhere, in a container say.
        temporary.symlink_to(os.path.relpath(home_of(model, version, self._data), link.parent))
        os.replace(temporary, link)
        folder = os.open(link.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _linked(self, model: str) -> str:
        try:
            return Path(os.readlink(self.link_of(model))).name
        except OSError:
            return ""

    def _unlink(self, model: str) -> None:
        self._link(model, "")
        self._records.pop(model, None)
        self._path(model).unlink(missing_ok=True)

    def _keep(self, record: Record) -> None:
        path = self._path(record.seen.model)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(asdict(record)).encode(), durable=True)
        self._records[record.seen.model] = record

    def _path(self, model: str) -> Path:
        return self._folder / f"{check_path(model)}.json"
