"""What a job says: kept once, searched, moved to the store after its end, read on from the same cursor."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import User
from webapp.base.identity import now_ms
from webapp.jobs import logs, tasks
from webapp.jobs.models import Attempt, Job, LogChunk

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]
PATIENCE = 30.0


@pytest.fixture
def attempt(submit: Submit) -> Attempt:
    """Of a job that runs."""
    submit(num_gpus=1)
    tick()
    attempt = Attempt.objects.select_related("job").get()
    say(attempt.job, MemberPhase.RUNNING)
    return attempt


def end(attempt: Attempt) -> None:
    say(attempt.job, MemberPhase.EXITED, 0)
    attempt.members.update(drained=True)


def speak(attempt: Attempt, first: int, texts: list[str], *, rank: int = 0) -> int:
    """One batch a text, each a second later than the one before; the offset behind them."""
    for second, text in enumerate(texts, 1):
        logs.ingest(attempt, rank, first, first + len(text), text, second * 1000)
        first += len(text)
    return first


def everything(job: Job, **options: Any) -> list[tuple[int, int, str]]:
    """(rank, time, text) read page by page."""
    lines, after, before = [], 0, -1
    while after != before:
        before = after
        found = logs.read(job.id, after=after, **options)
        lines += [(line["rank"], line["at_ms"], line["text"]) for line in found.lines]
        after = found.after
    return lines


def test_a_batch_that_comes_twice_is_kept_once(
    api: Callable[..., APIClient], owner: User, attempt: Attempt
) -> None:
    for _ in range(2):
        logs.ingest(attempt, 0, 0, 14, "step 1\nstep 2\n", 1)
    address = f"/api/v1/training-jobs/{attempt.job_id}/logs"

    def texts(query: str = "") -> list[Any]:
        return [line["text"] for line in api(owner).get(address + query).json()["lines"]]

    assert texts() == ["step 1", "step 2"]
    assert texts("?search=step 2") == ["step 2"]


@pytest.mark.django_db(transaction=True)
def test_a_reader_waits_for_lines_whose_numbers_are_lower_than_those_it_could_read(attempt: Attempt) -> None:
    """Whoever read on from a higher number would never see them."""
    written, may_commit = Event(), Event()

    def slow_node() -> None:
        with closing(connection), transaction.atomic():
            speak(attempt, 0, ["slow\n"])
            written.set()
            assert may_commit.wait(PATIENCE)

    def quick_node() -> None:
        with closing(connection):
            speak(attempt, 0, ["quick\n"], rank=1)

    def reader() -> logs.LogLines:
        with closing(connection):
            return logs.read(attempt.job_id)

    with ThreadPoolExecutor() as threads:
        slow = threads.submit(slow_node)
        assert written.wait(PATIENCE)
        threads.submit(quick_node).result(PATIENCE)
        reading = threads.submit(reader)
        while not reading.done() and not somebody_waits_for_a_log():
            pass
        may_commit.set()
        slow.result(PATIENCE)
        seen = reading.result(PATIENCE)
    seen.lines.extend(logs.read(attempt.job_id, after=seen.after).lines)
    assert sorted(line["text"] for line in seen.lines) == ["quick", "slow"]


@pytest.mark.django_db(transaction=True)
def test_a_reader_does_not_wait_for_a_writer_that_is_frozen(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SILENCE_MS", 200)
    written, thaws = Event(), Event()

    def frozen() -> None:
        with closing(connection), transaction.atomic():
            speak(attempt, 0, ["never\n"])
            written.set()
            assert thaws.wait(PATIENCE)

    with ThreadPoolExecutor() as threads:
        writing = threads.submit(frozen)
        assert written.wait(PATIENCE)
        assert logs.read(attempt.job_id).lines == []
        thaws.set()
        with pytest.raises(DatabaseError):
            writing.result(PATIENCE)
    speak(attempt, 0, ["never\n"])
    assert [text for _, _, text in everything(attempt.job)] == ["never"], "the node sends it again"


def somebody_waits_for_a_log() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)")
        return bool(cursor.fetchone()[0])


def test_lines_keep_their_times_and_their_order_when_they_move_to_the_store(attempt: Attempt) -> None:
    speak(attempt, 0, ["one\n", "two\tthirds\nthree\n"])
    speak(attempt, 0, ["un\n"], rank=1)
    before = everything(attempt.job)
    end(attempt)
    assert logs.archive(now_ms() - 60_000) == 0, "somebody may still be following it"
    assert logs.archive(now_ms()) == 1
    assert not LogChunk.objects.filter(stored=False).exists()
    assert everything(attempt.job) == before
    assert everything(attempt.job, search="TWO") == [(0, 2000, "two\tthirds")]
    assert everything(attempt.job, rank=1) == [(1, 1000, "un")]
    assert logs.archive(now_ms()) == 0


def test_ranks_that_speak_in_turn_lose_no_line_by_the_move(attempt: Attempt) -> None:
    behind = [0, 0]
    for text in ("one\n", "two\n", "three\n"):
        behind = [speak(attempt, offset, [text], rank=rank) for rank, offset in enumerate(behind)]
    before = everything(attempt.job)
    end(attempt)
    assert logs.archive(now_ms()) == 1
    assert sorted(everything(attempt.job)) == sorted(before)
    assert sorted(everything(attempt.job, page_bytes=1)) == sorted(before), "page by page"
    assert sorted(everything(attempt.job, page_bytes=1, search="t")) == sorted(
        line for line in before if "t" in line[2]
    )


def test_lines_that_come_after_the_move_follow_the_others(attempt: Attempt) -> None:
    behind = speak(attempt, 0, ["one\n"])
    end(attempt)
    logs.archive(now_ms())
    speak(attempt, behind, ["two\n"])
    assert logs.archive(now_ms()) == 1
    assert [text for _, _, text in everything(attempt.job)] == ["one", "two"]
    assert "".join(logs.whole(attempt.job_id)) == "[1.0] one\n[1.0] two\n"


def test_a_reader_at_the_end_is_told_nothing_twice_by_the_move(attempt: Attempt) -> None:
    speak(attempt, 0, ["one\n", "two\n"])
    end(attempt)
    after = logs.read(attempt.job_id).after
    logs.archive(now_ms())
    assert logs.read(attempt.job_id, after=after) == logs.LogLines([], after)


def test_a_long_log_lies_in_objects_of_a_good_size_and_is_read_page_by_page(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "OBJECT_BYTES", 1000)
    texts = [f"line {number:03}\n" for number in range(500)]
    speak(attempt, 0, texts)
    end(attempt)
    logs.archive(now_ms())
    assert LogChunk.objects.count() == 5
    first = logs.read(attempt.job_id, page_bytes=500)
    assert len(first.lines) == 112
    assert [text for _, _, text in everything(attempt.job, page_bytes=500)] == [
        each.rstrip() for each in texts
    ]
    assert everything(attempt.job, page_bytes=500, search="line 499") == [(0, 500_000, "line 499")]


@pytest.fixture
def small_logs(
    settings: Any, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> Any:
    """Three lines stay in the database, two make an object. Runs the tasks that were enqueued meanwhile."""
    settings.LOG_LIMIT_BYTES = 20
    monkeypatch.setattr(logs, "OBJECT_BYTES", 14)
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(logs.current_app, "send_task", lambda name, args: asked.append((name, *args)))

    @contextmanager
    def running() -> Iterator[None]:
        with django_capture_on_commit_callbacks(execute=True):
            yield
        for name, attempt_id, rank in {*asked}:
            assert name == "jobs.shorten_log"
            tasks.shorten_log(attempt_id, rank)
        asked.clear()

    return running


def test_the_oldest_lines_beyond_the_limit_move_to_the_store_and_none_is_lost(
    attempt: Attempt, small_logs: Any
) -> None:
    texts = [f"line {number}\n" for number in range(9)]
    with small_logs():
        speak(attempt, 0, texts)
        speak(attempt, 0, ["short\n"], rank=1)
    assert [text for _, _, text in everything(attempt.job, rank=0)] == [text.rstrip() for text in texts]
    kept = LogChunk.objects.filter(attempt=attempt, rank=0, stored=False).order_by("offset")
    assert [chunk.text for chunk in kept] == texts[6:]
    assert everything(attempt.job, search="line 0") == [(0, 1000, "line 0")]
    assert [text for _, _, text in everything(attempt.job, rank=1)] == ["short"]


def test_a_reader_in_the_middle_of_what_moves_reads_every_line_once(
    attempt: Attempt, small_logs: Any
) -> None:
    texts = [f"line {number}\n" for number in range(9)]
    with small_logs():
        speak(attempt, 0, texts)
        first = logs.read(attempt.job_id, page_bytes=1)
    rest = logs.read(attempt.job_id, after=first.after)
    lines = [line["text"] for line in first.lines + rest.lines]
    assert lines == [text.rstrip() for text in texts]


def test_while_the_store_is_away_old_lines_stay_where_they_are(
    attempt: Attempt, small_logs: Any, settings: Any, tmp_path: Path
) -> None:
    blocked = tmp_path / "a file where the store should be"
    blocked.write_text("")
    settings.STORE_URL = blocked.as_uri()
    with pytest.raises(TrainmasterError), small_logs():
        behind = speak(attempt, 0, [f"line {number}\n" for number in range(9)])
    assert len(everything(attempt.job)) == 9
    settings.STORE_URL = (tmp_path / "back").as_uri()
    with small_logs():
        speak(attempt, behind, ["line 9\n", "line X\n"])
    assert len(everything(attempt.job)) == 11
    assert LogChunk.objects.filter(attempt=attempt, stored=False).count() == 3
