"""The files of one manifest on this node, from the first piece to the finished model.

Pieces are written straight to their place in files of full size (`files/`), so every byte is written once and a
model needs its own size on disk, not twice that. A bitmap says which pieces have been verified; a finished model is
moved to its home by one rename.

    <folder>/manifest.json     what it is
    <folder>/pieces            the bitmap
    <folder>/boot              the machine's boot id when the bitmap was last trusted
    <folder>/files/…           until it is complete
    <folder>/homes.json        where the complete files are
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import shutil
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agent.files import write_atomically
from agent.transfer.disk import homes
from agent.transfer.disk.batches import Batches
from agent.transfer.disk.bitmap import Bitmap
from agent.transfer.disk.lane_book import LaneBook
from agent.transfer.disk.rates import RateMeter
from agent.transfer.disk.writer import Writer
from platform_core.distribution.content.manifest import Chunk, Manifest, Piece
from platform_core.errors import TrainmasterError
from trainmaster.store.copying import PROGRAM_MODE
from trainmaster.store.file import disk_error

_IN_MEMORY = getattr(os, "RWF_NOWAIT", 0)  # Linux
# Kept in memory to be passed on, whichever is more.
JUST_CAME_BYTES, JUST_CAME_PIECES = 16 << 20, 16
# Bytes, about 0.6 ms: to wake a thread and to be woken by it costs more on a busy machine.
HASHED_AT_ONCE = 1 << 20
WRITTEN_AT_ONCE, BATCH_SECONDS = 4 << 20, 0.25  # bytes
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class _Unwritten:
    number: int
    piece: Piece
    parts: Sequence[memoryview]
    written: Callable[[int], None]


class Landing:
    """Belongs to one event loop; files are touched in threads. `open` (or `open_complete`) comes first.

    Pieces are numbered over the whole manifest. `on_piece` is shown the bytes of each that has just been verified.
    """

    def __init__(self, manifest: Manifest, folder: Path, files: Path) -> None:
        self.manifest, self.folder, self.files = manifest, folder, files
        self.received, self.sent = RateMeter(), RateMeter()
        self.bytes_done = 0
        self.closed = False
        self._directory = -1
        self._base: list[int] = []  # number of a chunk's first piece, counted over the manifest
        self._left: list[int] = []  # pieces that a chunk still lacks
        total = 0
        for chunk in manifest.chunks:
            self._base.append(total)
            total += len(chunk.pieces)
        self.count = total
        self.on_piece: Callable[[int, Sequence[memoryview]], None] | None = None
        self._books: dict[int, LaneBook] = {}
        self._bitmap: Bitmap | None = None
        self._verified: dict[int, asyncio.Event] = {}
        self._counted: dict[int, asyncio.Event] = {}
        self._just_came: OrderedDict[int, Sequence[memoryview]] = OrderedDict()
        self._just_came_bytes = 0
        self._just_came_most = max(JUST_CAME_BYTES, JUST_CAME_PIECES * manifest.piece_size)
        self._writer = Writer()
        self._batches = Batches(self._write, self._is_written, WRITTEN_AT_ONCE, BATCH_SECONDS)
        self._changed = asyncio.Event()

    # -- opening and closing

    def open(self) -> None:
        """Blocking. Makes the files or takes them over as an earlier process left them."""
        with _disk_errors(self.folder, self.manifest.total_bytes):
            self.files.mkdir(parents=True, exist_ok=True)
            self._directory = os.open(self.files, os.O_DIRECTORY)
            whole = self._make_files()
            self._bitmap = Bitmap(self.folder / "pieces", self.count)
        if not (self._same_boot() and whole):
            self._recheck(self.manifest.chunks)
        self._count()

    def open_complete(self) -> None:
        """Blocking. The files are in their home and were verified when they went there."""
        self._directory = os.open(self.files, os.O_DIRECTORY)
        self._bitmap = None
        self._count()

    def close(self) -> None:
        """Wakes all that wait for a piece; the files stay."""
        self.closed = True
        for events in (self._verified, self._counted):
            for event in events.values():
                event.set()
            events.clear()
        self._just_came.clear()
        self._note_change()
        if self._bitmap is not None:
            self._bitmap.close()
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    # -- what is here

    @property
    def complete(self) -> bool:
        return self.bytes_done == self.manifest.total_bytes

    @property
    def bytes_missing(self) -> int:
        return self.manifest.total_bytes - self.bytes_done

    def has(self, number: int) -> bool:
        return self._bitmap is None or self._bitmap[number]

    def piece_at(self, number: int) -> Piece:
        chunk = bisect_right(self._base, number) - 1
        return self.manifest.piece(self.manifest.chunks[chunk], number - self._base[chunk])

    def number(self, chunk: int, index: int) -> int:
        return self._base[chunk] + index

    def book(self, lanes: int) -> LaneBook:
        """What is here lane by lane; the same object from call to call, kept up to date."""
        if lanes not in self._books:
            here = (number for number in range(self.count) if self.has(number))
            self._books[lanes] = LaneBook(lanes, here)
        return self._books[lanes]

    def chunks_done(self) -> bytes:
        bits = bytearray((len(self._left) + 7) // 8)
        for index, left in enumerate(self._left):
            if not left:
                bits[index // 8] |= 1 << index % 8
        return bytes(bits)

    def can_pass_on(self, number: int) -> bool:
        """It is verified; on disk, or on its way there and still in memory."""
        return number in self._just_came or self.has(number)

    async def verified(self, number: int, seconds: float) -> bool:
        """Waits until this piece can be passed on; False when it cannot after that time."""
        return await self._within(self._verified, self.can_pass_on, number, seconds)

    async def arrived(self, number: int, seconds: float) -> bool:
        """Waits until this piece is on disk and counted; False when it is not after that time."""
        return await self._within(self._counted, self.has, number, seconds)

    async def change(self, seconds: float) -> None:
        """Waits until another piece arrives or the landing is closed, at most this many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    # -- bytes

    async def verify(self, number: int, parts: Sequence[memoryview]) -> bool:
        """Whether the bytes are what the manifest says; from then on they are passed on. `write` is to follow."""
        piece = self.piece_at(number)
        if piece.size <= HASHED_AT_ONCE:
            right = _is_right(piece, parts)
        else:
            right = await asyncio.to_thread(_is_right, piece, parts)
        if right and not self.closed:
            self._remember(number, parts, piece.size)
            _wake(self._verified, number)
        return right

    def write(
        self, number: int, parts: Sequence[memoryview], written: Callable[[int], None]
    ) -> asyncio.Task[None]:
        """Writes a verified piece a moment later, with others, and counts it; `written` gets its size. The task is
        that of all that are written with it."""
        piece = self.piece_at(number)
        return self._batches.put(_Unwritten(number, piece, parts, written), piece.size)

    def flush(self) -> None:
        """Writes the batched pieces now: no more are on their way."""
        self._batches.flush()

    def just_came(self, number: int, start: int, size: int) -> memoryview | None:
        """These bytes of a piece, where they are still in memory and in one part."""
        for part in self._just_came.get(number, ()):
            if start < len(part):
                return part[start : start + size] if start + size <= len(part) else None
            start -= len(part)
        return None

    def read(self, piece: Piece) -> memoryview:
        """Blocking. The bytes of a piece that is here."""
        buffer = memoryview(bytearray(piece.size))
        self.read_into(piece, 0, buffer)
        return buffer

    def read_into(self, piece: Piece, start: int, buffer: memoryview, cached_only: bool = False) -> None:
        """Fills the buffer from this place in the piece. Blocking, unless only what the kernel has in memory is
        wanted: then BlockingIOError when it has not."""
        entry = self.manifest.files[self.manifest.chunks[piece.chunk].file]
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._directory)
        try:
            done, flags = 0, _IN_MEMORY if cached_only else 0
            while done < len(buffer):
                read = os.preadv(descriptor, [buffer[done:]], piece.offset + start + done, flags)
                if not read:
                    raise OSError(errno.EIO, "the file is shorter than it was")
                done += read
        except OSError as error:
            if cached_only and error.errno == errno.EOPNOTSUPP:
                raise BlockingIOError(errno.EAGAIN, "this file system cannot say") from error
            raise
        finally:
            os.close(descriptor)

    def recheck(self) -> None:
        """Blocking. Hashes what is here again and forgets the pieces that are not right."""
        self._recheck(self.manifest.chunks)
        self._count()

    # -- going home

    def settle(self, home: Path, data: Path) -> None:
        """Blocking. Moves the verified files to their home; from then on they are served from there."""
        with _disk_errors(home):
            # Written before the rename: whoever starts after a crash finds the files in one place or the other.
            homes.write(self.folder, data, [home])
            home.parent.mkdir(parents=True, exist_ok=True)
            if home.exists():
                shutil.rmtree(home)
            os.replace(self.files, home)
        self.files = home
        self._just_came.clear()  # what is served from now on comes from the disk

    def add_home(self, home: Path, data: Path) -> None:
        """Blocking. The same bytes under another name too: as links, so they take no more space."""
        others = [other for other in self.homes(data) if other != home]
        with _disk_errors(home, self.manifest.total_bytes):
            homes.furnish(home, self.files)
            homes.write(self.folder, data, [*others, home])

    def homes(self, data: Path) -> list[Path]:
        """Blocking."""
        return homes.read(self.folder, data)

    def leave_home(self, home: Path, data: Path) -> bool:
        """Blocking. Removes one home; True when none is left and the landing itself may go."""
        left = [other for other in self.homes(data) if other != home]
        homes.write(self.folder, data, left)
        homes.remove(home)
        if left and self.files == home:
            os.close(self._directory)
            self.files = left[0]
            self._directory = os.open(self.files, os.O_DIRECTORY)
        return not left

    # -- inside

    async def _within(
        self, events: dict[int, asyncio.Event], there: Callable[[int], bool], number: int, seconds: float
    ) -> bool:
        if not (there(number) or self.closed):
            event = events.setdefault(number, asyncio.Event())
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()
        return there(number)

    def _remember(self, number: int, parts: Sequence[memoryview], size: int) -> None:
        """Keeps the piece in memory for followers, which usually ask for it next, at least until it is on disk."""
        if number in self._just_came:
            return
        self._just_came[number] = parts
        self._just_came_bytes += size
        while self._just_came_bytes > self._just_came_most:
            oldest = next(iter(self._just_came))
            if not self.has(oldest):
                return
            self._just_came_bytes -= sum(len(part) for part in self._just_came.pop(oldest))

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _write(self, pieces: Sequence[_Unwritten]) -> None:
        with _disk_errors(self.folder, self.bytes_missing):
            for unwritten in pieces:
                entry = self.manifest.files[self.manifest.chunks[unwritten.piece.chunk].file]
                self._writer.write(self._directory, entry.path, unwritten.piece.offset, unwritten.parts)

    def _is_written(self, unwritten: _Unwritten) -> None:
        number, size = unwritten.number, unwritten.piece.size
        if self._bitmap is not None and not self.closed and not self.has(number):
            self._bitmap.set(number)
            self._left[unwritten.piece.chunk] -= 1
            self.bytes_done += size
            self.received.count(size)
            for book in self._books.values():
                book.add(number)
            if self.on_piece is not None:
                self.on_piece(number, unwritten.parts)
            _wake(self._counted, number)
            self._note_change()
        unwritten.written(size)

    def _make_files(self) -> bool:
        """False when a file was not there at its full size: the bitmap is then not to be trusted."""
        whole = True
        for entry in self.manifest.files:
            path = self.files / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                if file.tell() != entry.size:
                    whole = False
                    file.truncate(entry.size)
            if entry.executable:
                path.chmod(PROGRAM_MODE)
        return whole

    def _same_boot(self) -> bool:
        """After a power cut the bitmap may claim pieces that never reached the disk."""
        try:
            current = _BOOT_ID.read_bytes()
        except OSError:
            return False
        path = self.folder / "boot"
        same = path.exists() and path.read_bytes() == current
        if not same:
            write_atomically(path, current)
        return same

    def _recheck(self, chunks: tuple[Chunk, ...]) -> None:
        if self._bitmap is None:
            return
        for chunk in chunks:
            for piece in self.manifest.pieces(chunk):
                number = self.number(chunk.index, piece.index)
                if self.has(number) and hashlib.sha256(self.read(piece)).hexdigest() != piece.sha256:
                    self._bitmap.clear(number)

    def _count(self) -> None:
        self._books.clear()
        self._left = [0] * len(self.manifest.chunks)
        self.bytes_done = self.manifest.total_bytes
        if self._bitmap is None:
            return
        for chunk in self.manifest.chunks:
            for piece in self.manifest.pieces(chunk):
                if not self.has(self.number(chunk.index, piece.index)):
                    self._left[chunk.index] += 1
                    self.bytes_done -= piece.size


def _is_right(piece: Piece, parts: Sequence[memoryview]) -> bool:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return sum(len(part) for part in parts) == piece.size and digest.hexdigest() == piece.sha256


def _wake(events: dict[int, asyncio.Event], number: int) -> None:
    if (event := events.pop(number, None)) is not None:
        event.set()


@contextmanager
def _disk_errors(path: Path, needed: int | None = None) -> Iterator[None]:
    """Turns errors of the operating system into catalogued ones, with the numbers."""
    try:
        yield
    except OSError as error:
        trouble = disk_error(path, error, needed)
        if trouble.code != "disk_full":  # not to be taken for trouble with the store
            sentence = f"The disk of this node: {error.strerror or error} ({path})"
            trouble = TrainmasterError(trouble.code, sentence, source=str(path), why=str(error))
        raise trouble from error
