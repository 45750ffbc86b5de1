"""Log lines on their way in and, once the job has ended, on to the store."""

from collections import defaultdict
from collections.abc import Iterator

from django.conf import settings
from django.db import transaction

from platform_core.jobs.states import TERMINAL
from trainmaster.store import open_store
from webapp.jobs import queries
from webapp.jobs.models import Attempt, LogArchive, LogChunk
from webapp.jobs.queries import LogLines
from webapp.live import services as live


def ingest(attempt: Attempt, rank: int, offset: int, next_offset: int, text: str, at_ms: int) -> None:
    """Keep whole lines of one rank. A batch that comes twice is kept once; the oldest lines beyond the limit go."""
    with transaction.atomic():
        LogChunk.objects.bulk_create(
            [
                LogChunk(
                    attempt=attempt,
                    rank=rank,
                    offset=offset,
                    next_offset=next_offset,
                    text=text.replace("\0", "�"),
                    at_ms=at_ms,
                )
            ],
            ignore_conflicts=True,
        )
        old = LogChunk.objects.filter(
            attempt=attempt, rank=rank, next_offset__lt=next_offset - settings.LOG_LIMIT_BYTES
        )
        old.delete()
        live.publish(f"job:{attempt.job_id}", {"lines": True})  # the page reads on from where it is


def archive(ended_before_ms: int, limit: int = 20) -> int:
    """Move the logs of jobs that ended before then to the store: one file a rank and attempt; how many attempts."""
    ended = (
        Attempt.objects.filter(job__state__in=list(TERMINAL), logchunk__isnull=False)
        .filter(job__finished_ms__lte=ended_before_ms)
        .exclude(members__drained=False, members__phase__in=["assigned", "preparing", "running", "exited"])
        .distinct()
    )
    attempts = list(ended.select_related("job")[:limit])
    for attempt in attempts:
        _archive_attempt(attempt)
    return len(attempts)


def _archive_attempt(attempt: Attempt) -> None:
    by_rank: dict[int, list[LogChunk]] = defaultdict(list)
    for chunk in LogChunk.objects.filter(attempt=attempt).order_by("rank", "offset"):
        by_rank[chunk.rank].append(chunk)
    store = open_store(settings.STORE_URL)
    for rank, chunks in by_rank.items():
        path = f"logs/{attempt.job_id}/attempt-{attempt.number}/rank-{rank}.log"
        earlier = LogArchive.objects.filter(attempt=attempt, rank=rank).first()
        before = read_archive(earlier) if earlier else ""  # a few lines may have come after the first time
        body = (before + "".join(chunk.text for chunk in chunks)).encode()
        store.write(path, [body])
        with transaction.atomic():
            LogArchive.objects.update_or_create(
                attempt=attempt,
                rank=rank,
                defaults={"url": f"{settings.STORE_URL}/{path}", "size": len(body)},
            )
            LogChunk.objects.filter(id__in=[chunk.id for chunk in chunks]).delete()


def read_archive(archived: LogArchive) -> str:
    path = archived.url.removeprefix(f"{settings.STORE_URL}/")
    return open_store(settings.STORE_URL).read_range(path, 0, archived.size).decode(errors="replace")


def read(job_id: str, *, after: int = 0, rank: int | None = None, search: str = "") -> LogLines:
    """Log lines from wherever they lie now: a new reader gets the archive whole, then what is not in it yet."""
    archives = (
        [a for a in queries.log_archives(job_id) if rank is None or a.rank == rank] if after == 0 else []
    )
    found = queries.log_lines(job_id, after=after, rank=rank, search=search)
    archived = [
        {"rank": a.rank, "attempt": a.attempt.number, "offset": 0, "text": text, "at_ms": a.attempt.ended_ms}
        for a in archives
        for text in read_archive(a).splitlines()
        if search.lower() in text.lower()
    ]
    return LogLines(archived + found.lines, found.after or (1 if archived else 0))


def whole(job_id: str) -> Iterator[str]:
    """Everything kept of a job's log, each line with its attempt and rank, as one stream of text."""
    after = 0
    while True:
        found = read(job_id, after=after)
        yield "".join(f"[{line['attempt']}.{line['rank']}] {line['text']}\n" for line in found.lines)
        if not found.lines or found.after == after:
            return
        after = found.after
