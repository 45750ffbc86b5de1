"""PostgreSQL and Valkey out of their wheels: real servers, started and stopped here."""

import os
import secrets
import stat
from pathlib import Path

import psycopg
import pytest
import redis

from tests.support.databases import free_port
from webapp.operations.embedded import EmbeddedError, Postgres, Server, Valkey, let_through, running


@pytest.fixture
def folder(passable: Path) -> Path:
    folder = passable / secrets.token_hex(4)
    folder.mkdir(mode=0o711)
    return folder


def postgres(folder: Path) -> Postgres:
    return Postgres(folder / "postgres", free_port(), "the password", folder / "postgres.log", durable=False)


def valkey(folder: Path) -> Valkey:
    return Valkey(folder / "valkey", free_port(), secrets.token_hex(8), folder / "valkey.log")


def test_a_restart_finds_the_data_of_before(folder: Path) -> None:
    first = postgres(folder)
    with running(first), psycopg.connect(first.url) as connection:
        connection.execute("CREATE TABLE kept (n int)")
    second = postgres(folder)
    with running(second), psycopg.connect(second.url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_both_ask_for_the_password(folder: Path) -> None:
    database, cache = postgres(folder), valkey(folder)
    with running(database, cache):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(database.url.replace("the%20password", "wrong"))
        with pytest.raises(redis.AuthenticationError), redis.Redis(port=cache.port) as client:
            client.ping()


def test_letters_beyond_ascii_sort_and_fold(folder: Path) -> None:
    server = postgres(folder)
    with running(server), psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT upper('grün')").fetchone() == ("GRÜN",)


def test_an_initialisation_that_was_cut_short_is_begun_again(folder: Path) -> None:
    server = postgres(folder)
    server.folder.mkdir()
    (server.folder / "fresh").mkdir()
    (server.folder / "fresh" / "half").touch()
    with running(server):
        assert (server.data / "PG_VERSION").exists()


def test_what_started_is_stopped_when_the_next_does_not_start(folder: Path) -> None:
    database, cache = postgres(folder), valkey(folder)
    cache.port = database.port
    with (
        pytest.raises(EmbeddedError, match=f"Valkey did not start on port {cache.port}"),
        running(database, cache),
    ):
        pytest.fail("it cannot start")
    assert not database.running()


def test_the_reason_stands_in_the_error(folder: Path) -> None:
    taken: Server = valkey(folder)
    with running(taken):
        other = Valkey(folder / "other", taken.port, "x", folder / "other.log")
        with pytest.raises(EmbeddedError, match="Address already in use"):
            other.start()


def test_the_password_is_not_on_the_command_line(folder: Path) -> None:
    database, cache = postgres(folder), valkey(folder)
    cache.prepare()
    assert not [part for part in database.command() if database.password in part]
    assert not [part for part in cache.command() if cache.password in part]
    assert stat.S_IMODE((cache.folder / "valkey.conf").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs to give a way")
def test_a_way_for_others_is_opened_by_the_search_bit_alone(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0o700)
    let_through(closed / "inner" / "x")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o701
