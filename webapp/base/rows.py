"""Many rows, each with its own values, in one statement. (Django's bulk_update writes a branch for every value.)"""

from collections.abc import Mapping
from typing import Any

from django.db import connection
from django.db.models import Model
from psycopg.types.json import Jsonb


def update_each(model: type[Model], changes: Mapping[Any, Mapping[str, Any]]) -> int:
    """`changes` is primary key → field → value, the same fields in each. Returns how many rows there were.

    The caller holds their locks, so the order in which they are written does not matter.
    """
    if not changes:
        return 0
    meta: Any = model._meta
    quote: Any = connection.ops.quote_name
    fields = [meta.get_field(name) for name in next(iter(changes.values()))]
    types = ", ".join(f"{quote(each.column)} {each.rel_db_type(connection)}" for each in (meta.pk, *fields))
    sets = ", ".join(f"{quote(each.column)} = new.{quote(each.column)}" for each in fields)
    key = quote(meta.pk.column)
    # Names of tables and columns are ours, quoted; every value travels in the one parameter.
    statement = (
        f"UPDATE {quote(meta.db_table)} AS old SET {sets} FROM jsonb_to_recordset(%s) AS new({types}) "  # noqa: S608
        f"WHERE old.{key} = new.{key}"
    )
    rows: Any = Jsonb(
        [
            {meta.pk.column: value, **{each.column: _plain(columns[each.name]) for each in fields}}
            for value, columns in changes.items()
        ]
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [rows])
        return int(cursor.rowcount)


def _plain(value: Any) -> Any:
    """JSON has no bytes; PostgreSQL reads them in hexadecimal."""
    return f"\\x{bytes(value).hex()}" if isinstance(value, bytes | memoryview) else value
