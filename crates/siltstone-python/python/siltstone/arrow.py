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
import json
from collections.abc import Iterator
from typing import Any

import pyarrow

from . import _codecs
from ._errors import SettingError, UnsupportedError


def _key_type(store: Any) -> pyarrow.DataType:
    types = {"str": pyarrow.string(), "int": pyarrow.int64(), "uint": pyarrow.uint64()}
    return types.get(store.key_codec, pyarrow.binary())


def _row_type(store: Any) -> pyarrow.DataType | None:
    """Returns the type of values that are arrays: lists of a fixed size. None for other codecs."""
    array = _codecs.array_shape(store.value_codec)
    if array is None:
        return None
    item, shape = array
    try:
        kind = pyarrow.from_numpy_dtype(item)
    except pyarrow.ArrowNotImplementedError:
        raise UnsupportedError(f"Arrow has no type for the values of the codec `{store.value_codec}`") from None
    for length in reversed(shape):
        kind = pyarrow.list_(kind, length)
    return kind


def put_table(store: Any, table: Any, key: str, value: str, *, durability: str | None = None) -> int:
    """Puts two columns of a table, and returns the number of records.

    `table` is a table, a record batch or a reader of batches of Arrow, or what exports one, such as a DataFrame of
    pandas or Polars. Raw values are the bytes of strings and of binary columns; other codecs encode the objects of the
    column. Nulls are an error.
    """
    if not isinstance(table, (pyarrow.Table, pyarrow.RecordBatch, pyarrow.RecordBatchReader)):
        if hasattr(table, "__arrow_c_stream__"):
            table = pyarrow.table(table)
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
    is_raw = store.key_codec == "bytes" if is_key else store.value_codec == "raw"
    if is_raw and (pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)):
        column = column.cast(pyarrow.binary())
    objects: list[Any] = column.to_pylist()
    # Also nulls of the values of a dictionary, which `null_count` does not count.
    nulls = sum(item is None for item in objects)
    if nulls:
        raise SettingError(f"{name}: the column has {nulls} nulls; drop these rows")
    if is_raw:
        # Views, and dictionaries of strings.
        objects = [item.encode() if isinstance(item, str) else item for item in objects]
    return objects


def get_many(store: Any, keys: Any) -> pyarrow.Array:
    """Returns the values of the keys of an Arrow array, null for absent keys.

    Raw values are of type ``binary``, and arrays are lists of a fixed size of their items; others have the type that
    Arrow infers, and are an error if they would not be the same in it.
    """
    if isinstance(keys, pyarrow.ChunkedArray):
        keys = keys.combine_chunks()
    objects = _objects(store, keys, "keys", is_key=True)
    values = store.get_many(objects)
    if (kind := _row_type(store)) is not None:
        return _rows(kind, values)
    return _column(values, objects, pyarrow.binary() if store.value_codec == "raw" else None)


def _rows(kind: pyarrow.DataType, values: list[Any]) -> pyarrow.Array:
    """Returns arrays as lists of a fixed size, without an object per item; None is null."""
    import numpy

    is_null = numpy.array([value is None for value in values], dtype=bool)
    first = next((value for value in values if value is not None), None)
    if first is None:
        return pyarrow.nulls(len(values), kind)
    nothing = numpy.zeros_like(first)
    items = numpy.concatenate([(nothing if value is None else value).reshape(-1) for value in values])
    kinds, lists = [], kind
    while pyarrow.types.is_fixed_size_list(lists):
        kinds.append(lists)
        lists = lists.value_type
    column = pyarrow.array(items, type=lists)
    for number, own in enumerate(reversed(kinds), 1):
        mask = pyarrow.array(is_null) if number == len(kinds) and is_null.any() else None
        column = pyarrow.FixedSizeListArray.from_arrays(column, type=own, mask=mask)
    return column


def _column(values: list[Any], keys: list[Any], kind: pyarrow.DataType | None) -> pyarrow.Array:
    """Returns values as an array, of a type that Arrow infers if there is none, if they are the same in it."""
    plain = [_plain(value) for value in values]
    try:
        column = pyarrow.array(plain, type=kind)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SettingError(f"the values have no common type of Arrow: {error}; {REMEDY}") from error
    for key, before, after in zip(keys, plain, column.to_pylist()):
        if not _same(before, after):
            raise SettingError(
                f"the value of the key {_short(key)} would be another one in a column of the type {column.type}: "
                f"{_short(before)} as {_short(after)}; {REMEDY}"
            )
    return column


REMEDY = 'state a type that all values have by value_type=, or value_type="json" for their text'


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"


def _same(before: Any, after: Any) -> bool:
    """Returns whether a value that came out of Arrow is the one that went in. A field that it did not have is null."""
    if isinstance(before, dict):
        return (
            isinstance(after, dict)
            and all(name in after for name in before)
            and all(_same(before.get(name), value) for name, value in after.items())
        )
    if isinstance(before, (list, tuple)):
        return isinstance(after, list) and len(before) == len(after) and all(map(_same, before, after))
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if isinstance(before, float) and before != before:
        return isinstance(after, float) and after != after
    return bool(before == after)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _batches(
    store: Any, kind: pyarrow.DataType | None, batch_size: int, as_text: bool
) -> Iterator[pyarrow.RecordBatch]:
    items = iter(store.items())
    row_type = _row_type(store)
    while records := list(itertools.islice(items, batch_size)):
        names = [key for key, _ in records]
        values = [value for _, value in records]
        keys = pyarrow.array(names, type=_key_type(store))
        if row_type is not None:
            column = _rows(row_type, values)
        elif as_text:
            column = pyarrow.array([json.dumps(value, ensure_ascii=False) for value in values], type=pyarrow.string())
        else:
            column = _column(values, names, kind)
        # A later batch has the type of the first one, or is refused.
        kind = column.type
        yield pyarrow.record_batch([keys, column], names=["key", "value"])


def reader(
    store: Any, batch_size: int = 65_536, *, value_type: pyarrow.DataType | str | None = None
) -> pyarrow.RecordBatchReader:
    """Returns all records of a snapshot as a stream of batches with the columns ``key`` and ``value``.

    Raw values are of type ``binary``, and arrays are lists of a fixed size of their items. The type of other values is
    `value_type`, or the one that Arrow infers from the first batch. A value that would not be the same in it is a
    `SettingError`; only a field that a dict does not have is null. ``value_type="json"`` makes each value its text.
    """
    as_text = value_type == "json"
    if isinstance(value_type, str) and not as_text:
        raise SettingError(f'value_type: `{value_type}` is neither a type of pyarrow nor "json"')
    if value_type is not None and store.value_codec != "json" and (as_text or store.value_codec != "pickle"):
        raise SettingError(
            f"value_type: the values of the codec `{store.value_codec}` have their own type; leave it out"
        )
    kind = None if as_text else value_type
    if store.value_codec == "raw":
        kind = pyarrow.binary()
    batches = _batches(store, kind, batch_size, as_text)
    first = next(batches, None)
    if first is None:
        empty = pyarrow.string() if as_text else kind or _row_type(store) or pyarrow.null()
        schema = pyarrow.schema([("key", _key_type(store)), ("value", empty)])
        return pyarrow.RecordBatchReader.from_batches(schema, [])
    return pyarrow.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
