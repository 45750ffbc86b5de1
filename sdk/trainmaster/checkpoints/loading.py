"""Loading: the ranks agree on the newest checkpoint that is whole, and each reads the blocks that it needs.

Every byte is compared with the digests of its file before it goes anywhere, and nothing reaches the state of the
script before all ranks have all that they need. Files that a node lacks, or has damaged, come from the agent or from a
rank that has them. Another number of ranks, or another layout, makes no difference.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from trainmaster.checkpoints import (
    collective,
    description,
    folder,
    layout,
    random_state,
    reading,
    verification,
    wanted,
)
from trainmaster.checkpoints.description import CheckpointCorrupt, Description

T = TypeVar("T")

STATE, RANDOM = "state.pt", "random.pt"  # format 1
_MOST_EXCHANGED = 1 << 30  # bytes
_THREADS = 4  # hashlib leaves the interpreter to others


@dataclass(frozen=True, slots=True)
class Loaded:
    state: dict[str, Any]
    step: int
    path: Path
    random_restored: bool


@dataclass(frozen=True, slots=True)
class Source:
    """Where checkpoints are looked for. `work_folder` is the attempt's: its agent fetches what a node lacks."""

    candidates: Sequence[Path]
    warn: Callable[[str], None]
    go_back: bool  # set a corrupt one aside with a warning, and try the next
    work_folder: Path | None = None


def load(source: Source, into: Mapping[str, Any] | None = None) -> Loaded | None:
    """A collective. The first candidate of rank 0 that is whole; None when rank 0 has no candidates.

    Without `into` the state is returned with whole tensors on the CPU; with it the tensors of `into` are filled, and
    it is returned with the saved values beside them. CheckpointCorrupt is raised on every rank.
    """
    refused = ""
    for place in collective.from_first([str(path) for path in source.candidates]):
        try:
            return _open(Path(place), source, into).finish()
        except CheckpointCorrupt as error:  # on every rank
            refused = f"The checkpoint is refused: {error}."
            if not source.go_back:
                raise CheckpointCorrupt(refused) from error
        if collective.rank() == 0:
            aside = folder.set_aside(Path(place))
            source.warn(f"{refused} It is set aside as {aside}; an older one is tried.")
    if refused:
        raise CheckpointCorrupt(f"{refused} There is no older one; start without resuming.")
    return None


@dataclass(frozen=True, slots=True)
class _Opened:
    """A checkpoint whose every needed byte was verified; `fill` copies into the state of the script."""

    place: Path
    description: Description
    state: dict[str, Any]
    random: Any
    fill: Callable[[], None]

    def finish(self) -> Loaded:
        self.fill()
        if self.random is not None:
            random_state.restore(self.random)
        return Loaded(self.state, self.description.step, self.place, self.random is not None)


def _open(place: Path, source: Source, into: Mapping[str, Any] | None) -> _Opened:
    files = _Files(place, source)
    same_world = files.description.world_size == collective.world_size()
    if files.description.format == 1:
        return _open_format_1(files, same_world, into)
    return _open_format_2(files, same_world, into)


def _open_format_1(files: _Files, same_world: bool, into: Mapping[str, Any] | None) -> _Opened:
    contents: dict[str, memoryview] = {}
    files.read([STATE, RANDOM] if same_world else [STATE], contents.__setitem__)
    state = _values(contents[STATE])
    random = _values(contents[RANDOM])[collective.rank()] if same_world else None
    if into is None:
        return _Opened(files.place, files.description, state, random, lambda: None)
    target = _agreed(lambda: reading.WholeTensors(state, into))
    return _Opened(files.place, files.description, target.state(), random, target.fill)


def _open_format_2(files: _Files, same_world: bool, into: Mapping[str, Any] | None) -> _Opened:
    contents: dict[str, memoryview] = {}
    files.read([layout.INDEX], contents.__setitem__)
    index = layout.read_index(contents[layout.INDEX], files.place / layout.INDEX)
    structures = list(map(layout.values_file, index.structures))
    own = layout.values_file(collective.rank())
    files.read(list(dict.fromkeys([*structures, *([own] if same_world else [])])), contents.__setitem__)
    values = {path: _values(data) for path, data in contents.items() if path != layout.INDEX}
    structure = [values[path]["structure"] for path in structures]
    target = _agreed(lambda: reading.Blocks(structure, index, into))
    files.read(target.files, target.take)
    random = values[own]["random"] if same_world else None
    return _Opened(files.place, files.description, target.state(), random, target.fill)


def _agreed(make: Callable[[], T]) -> T:
    """What it returns; a ValueError of one rank on every rank."""
    made, trouble = None, ""
    try:
        made = make()
    except ValueError as error:
        trouble = str(error)
    if trouble := collective.first_sentence(trouble):
        raise ValueError(f"The checkpoint does not fit: {trouble}.")
    assert made is not None
    return made


class _Files:
    """The files of one checkpoint: on this node, or from the ranks of another. All ranks make and use it together."""

    def __init__(self, place: Path, source: Source) -> None:
        self.place = place
        self._source = source
        read, trouble = None, ""
        if collective.rank() == 0:
            try:
                read = description.read(place)
            except CheckpointCorrupt as error:
                trouble = str(error)
        first, trouble = collective.from_first((read, trouble))
        if first is None:
            raise CheckpointCorrupt(trouble)
        self._folder, own = self._own_copy(first)
        marks = collective.to_all(folder.fingerprint(self._folder) if self._folder is not None else "")
        parts = [
            collective.from_first(own, source=rank)
            for rank, mark in enumerate(marks)
            if mark and mark not in marks[:rank]  # the ranks of a node have the same description
        ]
        self.description = first.with_files_of(part for part in parts if part is not None)
        self._files = {file.path: file for file in self.description.files}

    def _own_copy(self, first: Description) -> tuple[Path | None, Description | None]:
        """The folder of rank 0 where it is seen; on another node the copy or the part of the same save there."""
        for path in dict.fromkeys((self.place, *self._source.candidates)):
            with suppress(CheckpointCorrupt):
                if (own := description.read(path)).save == first.save:
                    return path, own
        return None, None

    def read(self, paths: Sequence[str], take: Callable[[str, memoryview], None]) -> None:
        """`take` gets each file's verified bytes. Each rank has its own `paths`; CheckpointCorrupt on every rank."""
        self._bring(paths)
        lacking: dict[str, str] = {}  # with the reason
        with ThreadPoolExecutor(_THREADS) as executor:
            for path in paths:
                try:
                    take(path, self._read(path, executor))
                except CheckpointCorrupt as error:
                    lacking[path] = str(error)
            if collective.any_true(bool(lacking)):
                self._exchange(lacking, take, executor)

    def _bring(self, paths: Sequence[str]) -> None:
        """Asks the agent for what this node lacks and no other rank has; the ranks exchange the rest, unless it is
        much: each file of an exchange goes to all ranks."""
        place, work_folder = self._folder, self._source.work_folder
        lacking = [path for path in paths if path in self._files and not self._is_here(path)]
        if not collective.any_true(bool(lacking)):
            return
        asked_for = sorted({path for own in collective.to_all(lacking) for path in own})
        here = collective.to_all([path for path in asked_for if self._is_here(path)])
        held = {path for own in here for path in own}
        if sum(self._files[path].size for path in held) > _MOST_EXCHANGED:
            held = set()
        if work_folder is not None and place is not None:
            alone = [path for path in lacking if path not in held]
            wanted.ask(work_folder, collective.rank(), place, alone)

    def _is_here(self, path: str) -> bool:
        return self._folder is not None and (self._folder / path).exists()

    def _read(self, path: str, executor: ThreadPoolExecutor) -> memoryview:
        file = self._files.get(path)
        if file is None:
            raise CheckpointCorrupt(f"{self.place} has no {path}: the part of a node is missing")
        if self._folder is None:
            raise CheckpointCorrupt(f"{self.place} is not on this node")
        return verification.read_verified(self._folder, file, executor)

    def _exchange(
        self,
        lacking: Mapping[str, str],
        take: Callable[[str, memoryview], None],
        executor: ThreadPoolExecutor,
    ) -> None:
        """What some ranks lack comes from the first rank that has it whole."""
        trouble = ""
        for path in sorted({path for own in collective.to_all(sorted(lacking)) for path in own}):
            data: memoryview | None = None
            with suppress(CheckpointCorrupt):
                data = self._read(path, executor) if path not in lacking else None
            holders = collective.to_all(data is not None)
            if not any(holders):
                trouble = trouble or lacking.get(path, "")
                continue
            sent = collective.from_first(bytes(data) if data is not None else b"", source=holders.index(True))
            if path in lacking:
                received = memoryview(bytearray(sent))
                verification.check(self._files[path], received, self.place / path, executor)
                take(path, received)
        if trouble := collective.first_sentence(trouble):
            raise CheckpointCorrupt(trouble)


def _values(data: memoryview) -> Any:
    import torch

    # On the CPU first: load_state_dict moves each tensor to where its parameter is. Never code from a file.
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
