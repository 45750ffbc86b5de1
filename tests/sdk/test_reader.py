"""A parser that misbehaves ends the process that it runs in, and no other."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from platform_core.errors import TrainmasterError
from trainmaster.reader import pool as pools
from trainmaster.reader.pool import Lacking, Limits, Pool, Stopped, Unreadable

PLACE = "tests.sdk.misbehaving"


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(memory_bytes=512 * 2**20)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("function", "limits", "sentence"),
    [
        ("aborts", Limits(), "it ends the process that reads it (SIGABRT)"),
        ("exits", Limits(), "(exit code 3)"),
        ("computes_for_ever", Limits(cpu_seconds=0), "more than the 0 seconds of processor time allowed"),
        ("waits_for_ever", Limits(wall_seconds=0.5), "more than the 0.5 seconds allowed"),
        ("takes_all_memory", Limits(), "more memory than the 512 MiB allowed"),
        ("says_much", Limits(output_bytes=2**16), "more than the 64 KiB allowed"),
    ],
)
def test_what_ends_or_exceeds_a_reader_is_said_and_the_next_call_is_answered(
    pool: Pool, function: str, limits: Limits, sentence: str
) -> None:
    with pytest.raises(Stopped) as stopped:
        pool.read(f"{PLACE}:{function}", "The file a.bin", limits=limits)
    assert stopped.value.sentence.startswith("The file a.bin cannot be read: ")
    assert sentence in stopped.value.sentence
    assert stopped.value.kind.http == 422
    assert pool.read(f"{PLACE}:length", "The file b.bin", b"four") == 4


@pytest.mark.parametrize("by", [signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL])
def test_a_reader_that_dies_by_a_signal_takes_nothing_with_it(pool: Pool, by: signal.Signals) -> None:
    with pytest.raises(Stopped, match=by.name):
        pool.read(f"{PLACE}:dies", "It", by=by)
    assert pool.read(f"{PLACE}:length", "It", b"") == 0


def test_what_a_parser_refuses_is_a_refusal_and_its_reader_goes_on(pool: Pool) -> None:
    before = pool.read(f"{PLACE}:surroundings", "It")["process"]
    for function in ("refuses", "recurses"):
        with pytest.raises(Unreadable) as refused:
            pool.read(f"{PLACE}:{function}", "The file a.bin")
        assert not isinstance(refused.value, Stopped)
    with pytest.raises(Lacking, match="no_such_library"):
        pool.read(f"{PLACE}:lacks", "It")
    assert pool.read(f"{PLACE}:prints", "It") == "answer"
    assert pool.read(f"{PLACE}:surroundings", "It")["process"] == before


def test_a_reader_has_no_environment_and_no_file_of_its_parent(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMASTER_SECRET_KEY", "secret")
    found = pool.read(f"{PLACE}:surroundings", "It")
    assert found["environment"] == ["LC_ALL", "PYTHONPATH"]
    assert found["open"] == ["/dev/null", "/dev/null", "socket", "socket"]


def test_a_reader_is_replaced_after_its_calls_and_one_that_ended_by_itself_without_a_word(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "CALLS", 3)
    processes = [pool.read(f"{PLACE}:surroundings", "It")["process"] for _ in range(4)]
    assert len(set(processes)) == 2
    assert processes[0] == processes[2]
    (idle,) = pool._free
    os.kill(processes[3], signal.SIGTERM)
    idle.process.wait()
    assert pool.read(f"{PLACE}:length", "It", b"1") == 1


def test_content_of_megabytes_passes_and_threads_share_the_readers(pool: Pool) -> None:
    with ThreadPoolExecutor(8) as threads:
        contents = [bytes(1000 * 1024 + number) for number in range(16)]
        lengths = list(threads.map(lambda data: pool.read(f"{PLACE}:length", "It", data), contents))
    assert lengths == [len(data) for data in contents]
    assert len(pool._free) <= pool.size


def test_where_no_reader_becomes_free_it_is_unavailable_for_now(pool: Pool) -> None:
    for _ in range(pool.size):
        pool._places.acquire()
    with pytest.raises(TrainmasterError) as refused:
        pool.read(f"{PLACE}:length", "It", limits=Limits(wall_seconds=0.1))
    assert refused.value.kind.http == 503


def test_a_fork_starts_readers_of_its_own(pool: Pool) -> None:
    mine = pool.read(f"{PLACE}:surroundings", "It")["process"]
    read, write = os.pipe()
    if not (fork := os.fork()):
        os.write(write, str(pool.read(f"{PLACE}:surroundings", "It")["process"]).encode())
        os._exit(0)
    os.waitpid(fork, 0)
    assert int(os.read(read, 20)) != mine
    assert pool.read(f"{PLACE}:surroundings", "It")["process"] == mine
