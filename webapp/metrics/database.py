"""Statements with bytes and arrays in them, in PostgreSQL's binary format.

Django writes parameters into the text of a statement, which doubles every byte of a payload; psycopg converts lists
number by number. Here arrays of numpy go to the server as they are, but for the order of their bytes.
"""

from collections.abc import Mapping
from typing import Any, LiteralString

import numpy as np
import numpy.typing as npt
import psycopg
from django.db import connection
from psycopg.adapt import Dumper
from psycopg.pq import Format

_OIDS = {
    "i": {8: (1016, 20), 4: (1007, 23)},
    "f": {8: (1022, 701)},
    "b": {1: (1000, 16)},
}  # of the array, its element


class ArrayDumper(Dumper):
    """A one-dimensional array as bigint[], int[], float8[] or bool[]."""

    format = Format.BINARY

    def get_key(self, obj: npt.NDArray[Any], format: Any) -> Any:
        return np.ndarray, obj.dtype.kind, obj.dtype.itemsize

    def upgrade(self, obj: npt.NDArray[Any], format: Any) -> "ArrayDumper":
        dumper = ArrayDumper(np.ndarray)
        dumper.oid = _OIDS[obj.dtype.kind][obj.dtype.itemsize][0]
        return dumper

    def dump(self, obj: npt.NDArray[Any]) -> bytes:
        element = _OIDS[obj.dtype.kind][obj.dtype.itemsize][1]
        rows = np.empty(len(obj), [("size", ">i4"), ("value", obj.dtype.newbyteorder(">"))])
        rows["size"], rows["value"] = obj.dtype.itemsize, obj
        dimensions = np.array([1, 0, element, len(obj), 1], ">i4")
        return dimensions.tobytes() + rows.tobytes()


psycopg.adapters.register_dumper(np.ndarray, ArrayDumper)


def rows(statement: LiteralString, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.wrap_database_errors:
        connection.ensure_connection()
        with psycopg.Cursor(connection.connection) as cursor:
            cursor.execute(statement, parameters, binary=True)
            return cursor.fetchall() if cursor.description else []
