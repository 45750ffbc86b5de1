"""Log lines: ingested into the database, archived in the store after the job has ended, read from both."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Exists, F, Max, OuterRef, Q, Sum

from platform_core.errors import TrainmasterError
from platform_core.jobs.states import TERMINAL
from platform_core.storage.holdings import Age, Holding
from trainmaster.store import Store, open_store
from webapp.base.ages import age
from webapp.events import services as events
from webapp.jobs.models import Attempt, Job, LogChunk
from webapp.sockets import services as sockets

OBJECT_BYTES = 2**20  # of one object in the store, about
PAGE_BYTES = 2**21  # of one answer, about
SCANNED = 2000  # chunks looked through for one answer
SILENCE_MS = 10_000  # of a transaction on a machine that is cut off or frozen: others wait for it no longer
LAUNCHERS = 1_000_000  # ranks from here on are launchers, whose reports are not the script's
RANKS_LOOKED_AT = 64  # for the one that failed
LINES_AT_THE_END = 20
TRACEBACK = "Traceback (most recent call last):"
Line = dict[str, Any]  # rank, attempt, offset of its chunk, text, at_ms


@dataclass(frozen=True, slots=True)
class LogLines:
    lines: list[Line]
    after: int  # cursor: pass it again to read on; unchanged when there is no more


def ingest(attempt: Attempt, rank: int, offset: int, next_offset: int, text: str, at_ms: int) -> None:
    """Keep whole lines of one rank. A batch that comes twice is kept once; the oldest lines beyond the limit move
    to the store, some for each object's worth of new ones."""
    chunk = LogChunk(
        attempt=attempt,
        rank=rank,
        offset=offset,
        next_offset=next_offset,
        text=text.replace("\0", "�"),
        at_ms=at_ms,
    )
    with transaction.atomic():
        _hold(attempt.job_id, "pg_advisory_xact_lock_shared")
        LogChunk.objects.bulk_create([chunk], ignore_conflicts=True)
        if next_offset > settings.LOG_LIMIT_BYTES and offset // OBJECT_BYTES != next_offset // OBJECT_BYTES:
            transaction.on_commit(lambda: current_app.send_task("jobs.shorten_log", args=[attempt.id, rank]))
        sockets.publish(f"job:{attempt.job_id}", {"lines": True})  # the page reads on from where it is


def shorten(attempt_id: str, rank: int) -> None:
    """Move what is beyond the limit of a running rank to the store. What cannot be stored now stays."""
    chunks = LogChunk.objects.filter(attempt=attempt_id, rank=rank, stored=False)
    end = chunks.aggregate(end=Max("next_offset", default=0))["end"]
    old = chunks.filter(next_offset__lt=end - settings.LOG_LIMIT_BYTES).select_related("attempt")
    for group in _objects(old.order_by("offset").iterator(500)):
        _store(group)


def archive(ended_before_ms: int, limit: int = 20) -> int:
    """Move the logs of jobs that ended before then to the store; how many attempts had any left to move."""
    ended = (
        Attempt.objects.filter(job__state__in=list(TERMINAL), logchunk__stored=False)
        .filter(job__finished_ms__lte=ended_before_ms)
        .exclude(members__drained=False, members__phase__in=["assigned", "preparing", "running", "exited"])
        .distinct()
    )
    attempts = list(ended.select_related("job")[:limit])
    for attempt in attempts:
        chunks = LogChunk.objects.filter(attempt=attempt, stored=False).select_related("attempt")
        for group in _objects(chunks.order_by("rank", "offset").iterator(500)):
            _store(group)
    return len(attempts)


def _objects(chunks: Iterable[LogChunk]) -> Iterator[list[LogChunk]]:
    """Neighbouring chunks of a rank, as many as make an object of a good size."""
    for _, of_rank in groupby(chunks, key=lambda chunk: chunk.rank):
        group: list[LogChunk] = []
        for chunk in of_rank:
            group.append(chunk)
            if chunk.next_offset - group[0].offset >= OBJECT_BYTES:
                yield group
                group = []
        if group:
            yield group


def _store(group: list[LogChunk]) -> None:
    """The last of them stays as the object's row: cursors of readers keep their meaning."""
    *others, kept = group
    kept.offset = group[0].offset
    # Each line has its time and the cursor behind it, so that a reader in the middle of the object can go on there.
    lines = (f"{chunk.at_ms}/{chunk.id}\t{text}\n" for chunk in group for text in chunk.text.splitlines())
    open_store(settings.STORE_URL).write(_path(kept), ["".join(lines).encode()])
    kept.text, kept.stored = "", True
    with transaction.atomic():
        LogChunk.objects.filter(id__in=[chunk.id for chunk in others]).delete()
        kept.save(update_fields=["offset", "text", "stored"])


def cool(ended_before_ms: int, limit: int = 200) -> int:
    """Move objects of jobs that ended before then to the cold store, where they are read from then on. Returns how
    many; the next call goes on."""
    rows = LogChunk.objects.filter(stored=True, cold=False, attempt__job__finished_ms__lt=ended_before_ms)
    hot, cold = open_store(settings.STORE_URL), open_store(settings.COLD_STORE_URL)
    chunks = list(
        rows.filter(attempt__job__state__in=list(TERMINAL)).select_related("attempt").order_by("id")[:limit]
    )
    for chunk in chunks:
        path = _path(chunk)
        data = hot.read_range(path, 0, hot.size(path))
        cold.write(path, [data], len(data))
        if cold.read_range(path, 0, len(data)) != data:
            raise TrainmasterError("verification_failed", path=path)
        LogChunk.objects.filter(id=chunk.id).update(cold=True)
        hot.delete(path)
    return len(chunks)


def _store_of(chunk: LogChunk) -> Store:
    return open_store(settings.COLD_STORE_URL if chunk.cold else settings.STORE_URL)


def _text(chunk: LogChunk) -> str:
    """Of an object; it may move to the cold store at this moment."""
    path = _path(chunk)
    try:
        store = _store_of(chunk)
        return store.read_range(path, 0, store.size(path)).decode(errors="replace")
    except TrainmasterError:
        if chunk.cold or not LogChunk.objects.filter(id=chunk.id, cold=True).exists():
            raise
        chunk.cold = True
        return _text(chunk)


def _path(chunk: LogChunk) -> str:
    attempt = chunk.attempt
    return f"logs/{attempt.job_id}/attempt-{attempt.number}/rank-{chunk.rank}/{chunk.offset:015}.log"


def read(
    job_id: str, *, after: int = 0, rank: int | None = None, search: str = "", page_bytes: int = PAGE_BYTES
) -> LogLines:
    """The next lines behind the cursor in the order they arrived, some megabytes at most. No line at all under a
    cursor that has moved means that none of those looked through was searched for, not that there is no more."""
    chunks = LogChunk.objects.filter(attempt__job=job_id, id__gt=after, id__lte=_newest(job_id))
    chunks = chunks.select_related("attempt").order_by("id")
    if rank is not None:
        chunks = chunks.filter(rank=rank)
    if search:
        chunks = chunks.filter(Q(stored=True) | Q(text__icontains=search))
    lines: list[Line] = []
    # An object has lines of before the chunks of other ranks that are read on the way to it.
    looked_at, since = 0, after
    for chunk in chunks[:SCANNED]:
        here = _lines(chunk, since)
        after, looked_at = chunk.id, looked_at + sum(len(line["text"]) for line in here)
        lines += [line for line in here if search.lower() in line["text"].lower()]
        if looked_at >= page_bytes:
            break
    behind = chunks.filter(stored=True, id__gt=after).order_by("attempt", "rank", "id")
    for chunk in behind.distinct(
        "attempt", "rank"
    ):  # the next object of each rank may begin before the cursor
        here = _lines(chunk, since, after)
        lines += [line for line in here if search.lower() in line["text"].lower()]
    return LogLines(lines, after)


def _newest(job_id: str) -> int:
    """The newest chunk, once none before it is still being written: a row gets its number before others see it, and a
    cursor beyond such a row would leave it out for good."""
    with transaction.atomic():
        _hold(job_id, "pg_advisory_xact_lock")  # waits for those who write, who do not wait for one another
        return LogChunk.objects.filter(attempt__job=job_id).aggregate(newest=Max("id", default=0))["newest"]


def _hold(job_id: str, lock: str) -> None:
    """To the end of this transaction, which the database ends itself when nothing is heard of it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [str(SILENCE_MS)]
        )
        cursor.execute(f"SELECT {lock}(hashtext(%s))", [f"log of {job_id}"])


def _lines(chunk: LogChunk, after: int, until: int | None = None) -> list[Line]:
    """Those behind the cursor, up to another."""
    lines: Iterable[tuple[int, str]]
    if chunk.stored:
        parts = (line.partition("\t") for line in _text(chunk).splitlines())
        heads = ((head.partition("/"), text) for head, _, text in parts)
        known = ((int(at_ms), int(cursor or chunk.id), text) for (at_ms, _, cursor), text in heads)
        last = chunk.id if until is None else until
        lines = ((at_ms, text) for at_ms, cursor, text in known if after < cursor <= last)
    else:
        lines = ((chunk.at_ms, text) for text in chunk.text.splitlines())
    where = {"rank": chunk.rank, "attempt": chunk.attempt.number, "offset": chunk.offset}
    return [{**where, "text": text, "at_ms": at_ms} for at_ms, text in lines]


def ending(job_id: str) -> list[str]:
    """The last lines of the rank that failed in the newest attempt: from its traceback on where it has one."""
    newest = Attempt.objects.filter(job=job_id).order_by("-number").first()
    chunks = (
        LogChunk.objects.filter(attempt=newest, rank__lt=LAUNCHERS).select_related("attempt").order_by("id")
    )
    lasts = dict(chunks.order_by("rank", "offset").values_list("rank", "id")) if newest else {}
    ends = []
    for last in LogChunk.objects.filter(id__in=list(lasts.values())[:RANKS_LOOKED_AT]).select_related(
        "attempt"
    ):
        before = chunks.filter(rank=last.rank, offset__lt=last.offset).order_by("-offset").first()
        lines = [line["text"] for chunk in (before, last) if chunk is not None for line in _lines(chunk, 0)]
        ends.append((last.rank, lines))
    ends.sort(key=lambda end: (TRACEBACK not in end[1], end[0]))
    return _last_words(ends[0][1]) if ends else []


def _last_words(lines: list[str]) -> list[str]:
    begun = max((number for number, line in enumerate(lines) if line == TRACEBACK), default=0)
    return lines[max(begun, len(lines) - LINES_AT_THE_END) :]


def whole(job_id: str) -> Iterator[str]:
    """Everything kept of a job's log, each line with its attempt and rank, as one stream of text."""
    after, before = 0, -1
    while after != before:
        page, before = read(job_id, after=after), after
        yield "".join(f"[{line['attempt']}.{line['rank']}] {line['text']}\n" for line in page.lines)
        after = page.after


def delete(ended_before_ms: int, limit: int = 20) -> int:
    """Delete the logs of jobs that ended before then. Returns of how many jobs; the next call goes on."""
    has_logs = Exists(LogChunk.objects.filter(attempt__job=OuterRef("id")))
    ended = Job.objects.filter(has_logs, state__in=list(TERMINAL), finished_ms__lt=ended_before_ms)
    jobs = list(ended.order_by("finished_ms", "id")[:limit])
    for job in jobs:
        chunks = LogChunk.objects.filter(attempt__job=job.id)
        for chunk in chunks.filter(stored=True).select_related("attempt").iterator(500):
            _store_of(chunk).delete(_path(chunk))
        with transaction.atomic():
            chunks.delete()
            events.record(
                "LogsDeleted",
                f"job:{job.id}",
                actor="system",
                team=job.team_id,
                cause="their retention is over",
            )
    return len(jobs)


def stored() -> list[Holding]:
    """Of the logs that lie in the store, by objects."""
    size = F("next_offset") - F("offset")
    stored_chunks = LogChunk.objects.filter(stored=True).order_by()
    rows = stored_chunks.values_list(
        "attempt__job__team", "attempt__job__project", "attempt__job__user__username", age("at_ms")
    ).annotate(bytes=Sum(size), items=Count("id"), cold_bytes=Sum(size, filter=Q(cold=True), default=0))
    return [
        Holding(team, "logs", project, owner, Age(old), *sums) for team, project, owner, old, *sums in rows
    ]


def expired(before_ms: int) -> int:
    """How many jobs that ended before then have logs."""
    ended = Job.objects.filter(state__in=list(TERMINAL), finished_ms__lt=before_ms)
    return ended.filter(Exists(LogChunk.objects.filter(attempt__job=OuterRef("id")))).count()
