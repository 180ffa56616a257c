"""Arrow tables in and out. Needs ``pyarrow``.

>>> import pyarrow, siltstone, tempfile
>>> from siltstone import arrow
>>> users = pyarrow.table({"id": [17, 18], "name": ["Ada", "Grace"]})
>>> with siltstone.open(tempfile.mkdtemp() + "/users", keys="int") as db:
...     arrow.put_table(db, users, "id", "name")
...     arrow.get_many(db, pyarrow.array([18, 19])).to_pylist()
...     sorted(arrow.reader(db).read_all().column("key").to_pylist())
2
[b'Grace', None]
[17, 18]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow

from ._errors import SettingError


def _key_type(store: Any) -> pyarrow.DataType:
    types = {"str": pyarrow.string(), "int": pyarrow.int64(), "uint": pyarrow.uint64()}
    return types.get(store.key_codec, pyarrow.binary())


def put_table(store: Any, table: Any, key: str, value: str, *, durability: str | None = None) -> int:
    """Puts two columns of a table, a record batch or a reader of batches, and returns the number of records.

    Raw values are the bytes of strings and of binary columns; other codecs encode the objects of the column. Nulls
    are an error.
    """
    batches = table.to_batches() if isinstance(table, pyarrow.Table) else table
    if isinstance(batches, pyarrow.RecordBatch):
        batches = [batches]
    count = 0
    for batch in batches:
        keys = _objects(store, batch.column(key), key, is_key=True)
        values = _objects(store, batch.column(value), value, is_key=False)
        count += store.put_many(zip(keys, values), durability=durability)
    return count


def _objects(store: Any, column: Any, name: str, *, is_key: bool) -> list[Any]:
    if column.null_count:
        raise SettingError(f"{name}: the column has {column.null_count} nulls; drop these rows")
    is_raw = store.key_codec == "bytes" if is_key else store.value_codec == "raw"
    if is_raw and (pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)):
        column = column.cast(pyarrow.binary())
    objects: list[Any] = column.to_pylist()
    return objects


def get_many(store: Any, keys: Any) -> pyarrow.Array:
    """Returns the values of the keys of an Arrow array, null for absent keys.

    Raw values are of type ``binary``; others have the type that Arrow infers.
    """
    if isinstance(keys, pyarrow.ChunkedArray):
        keys = keys.combine_chunks()
    values = store.get_many(_objects(store, keys, "keys", is_key=True))
    return pyarrow.array(values, type=pyarrow.binary() if store.value_codec == "raw" else None)


def _batches(store: Any, schema: pyarrow.Schema | None, batch_size: int) -> Iterator[pyarrow.RecordBatch]:
    items = iter(store.items())
    while records := list(itertools.islice(items, batch_size)):
        keys = pyarrow.array([key for key, _ in records], type=_key_type(store))
        kind = schema.field("value").type if schema else None
        values = pyarrow.array([_plain(value) for _, value in records], type=kind)
        yield pyarrow.record_batch([keys, values], names=["key", "value"])


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def reader(store: Any, batch_size: int = 65_536) -> pyarrow.RecordBatchReader:
    """Returns all records of a snapshot as a stream of batches with the columns ``key`` and ``value``.

    The type of values that are not raw is that of the first batch.
    """
    if store.value_codec == "raw":
        schema = pyarrow.schema([("key", _key_type(store)), ("value", pyarrow.binary())])
        return pyarrow.RecordBatchReader.from_batches(schema, _batches(store, schema, batch_size))
    first = list(itertools.islice(_batches(store, None, batch_size), 1))
    if not first:
        schema = pyarrow.schema([("key", _key_type(store)), ("value", pyarrow.null())])
        return pyarrow.RecordBatchReader.from_batches(schema, [])
    schema = first[0].schema
    return pyarrow.RecordBatchReader.from_batches(schema, _batches(store, schema, batch_size))
