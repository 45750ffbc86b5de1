"""Statements with bytes and arrays in them, in PostgreSQL's binary format.

Django writes parameters into the text of a statement, which doubles every byte of a payload.
"""

from collections.abc import Mapping
from typing import Any, LiteralString

import psycopg
from django.db import connection


def rows(statement: LiteralString, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.wrap_database_errors:
        connection.ensure_connection()
        with psycopg.Cursor(connection.connection) as cursor:
            cursor.execute(statement, parameters, binary=True)
            return cursor.fetchall() if cursor.description else []
