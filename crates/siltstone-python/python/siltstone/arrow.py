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

Keys, numbers, arrays, bytes and texts go from buffer to buffer: no object of Python is made of them. Other values are
decoded first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy
import pyarrow

from . import _codecs
from ._errors import DecodeError, SettingError, UnsupportedError

# Types.


def _key_type(store: Any) -> pyarrow.DataType:
    types = {"str": pyarrow.string(), "int": pyarrow.int64(), "uint": pyarrow.uint64()}
    return types.get(store.key_codec, pyarrow.binary())


def _row_type(store: Any) -> pyarrow.DataType | None:
    """Returns the type of values that are numbers, or arrays of them: lists of a fixed size. None for other codecs."""
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


# Tables in.


def put_table(
    store: Any,
    table: Any,
    key: str,
    value: str | Sequence[str],
    *,
    expire: Any = None,
    durability: str | None = None,
    progress: Any = None,
) -> int:
    """Puts columns of a table, and returns the number of records.

    `table` is a table, a record batch or a reader of batches of Arrow, or what exports one, such as a DataFrame of
    Polars; `siltstone.pandas.put_frame` puts one of pandas by its index. `key` is the column of keys. `value` is that of
    the values: raw values are the bytes of strings and of binary columns; other codecs encode the objects of the
    column. Of several columns, a value is a dict by column. Nulls are an error, except in such a dict. `progress` is
    that of `Database.put_many`.
    """
    from ._progress import reporting

    if not isinstance(table, (pyarrow.Table, pyarrow.RecordBatch, pyarrow.RecordBatchReader)):
        if not hasattr(table, "__arrow_c_stream__"):
            raise SettingError(f"table: {type(table).__name__} is neither a table of Arrow nor exports one")
        table = pyarrow.table(table)
    batches = table.to_batches() if isinstance(table, pyarrow.Table) else table
    if isinstance(batches, pyarrow.RecordBatch):
        batches = [batches]
    names = [key] if isinstance(value, str) else [key, *value]
    _check_columns(table.schema, [*names, value] if isinstance(value, str) else names)
    total = None if isinstance(table, pyarrow.RecordBatchReader) else table.num_rows
    count = 0
    with reporting(progress, "put_table", " records") as report:
        for batch in batches:
            keys, values = _keys_of(store, batch.column(key), key), _values_of(store, batch, value)
            add = None if report is None else _added(report, count, total)
            count += store.put_many(*_records(keys, values), expire=expire, durability=durability, progress=add)
    return count


def _added(report: Any, before: int, total: int | None) -> Any:
    """Returns the report of a part, which follows others."""
    return lambda done, _: report(before + done, total)


def _check_columns(schema: pyarrow.Schema, names: list[str]) -> None:
    for name in names:
        if schema.get_field_index(name) < 0:
            there = ", ".join(f"`{own}`" for own in schema.names)
            raise SettingError(f"table: there is no column `{name}`, or there are two; it has {there}")


def _records(keys: Any, values: Any) -> tuple[Any, ...]:
    """Returns the records of `put_many`: two arrays, or pairs."""
    if isinstance(keys, numpy.ndarray) and isinstance(values, numpy.ndarray):
        return keys, values
    return (zip(keys, values),)


def _keys_of(store: Any, column: Any, name: str) -> Any:
    if store.key_codec in ("int", "uint") and pyarrow.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    return _objects(column, name, is_raw=store.key_codec == "bytes")


def _values_of(store: Any, batch: Any, value: str | Sequence[str]) -> Any:
    if not isinstance(value, str):
        if store.value_codec not in ("json", "pickle"):
            raise SettingError(
                f"value: several columns are a dict, but the values of the codec `{store.value_codec}` are none; name "
                'one column, or create the database with values="json"'
            )
        return batch.select(list(value)).to_pylist()
    column, array = batch.column(value), _codecs.array_shape(store.value_codec)
    if array is not None and (rows := _rows_in(column, array[1])) is not None:
        return rows
    return _objects(column, value, is_raw=store.value_codec == "raw")


def _rows_in(column: Any, shape: tuple[int, ...]) -> Any:
    """Returns a column of numbers, or of lists of them of a fixed size, as an array; None for other columns."""
    count = len(column)
    for length in shape:
        if column.null_count or not pyarrow.types.is_fixed_size_list(column.type) or column.type.list_size != length:
            return None
        column = column.flatten()
    kind = column.type
    is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)
    if column.null_count or not is_number:
        return None
    return column.to_numpy(zero_copy_only=False).reshape(count, *shape)


def _objects(column: Any, name: str, *, is_raw: bool) -> list[Any]:
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


# Columns out.


def get_many(store: Any, keys: Any, *, value_type: pyarrow.DataType | str | None = None) -> pyarrow.Array:
    """Returns the values of the keys of an Arrow array, null for absent keys.

    Raw values are of type ``binary``, and arrays are lists of a fixed size of their items. Others have the type
    `value_type`, or the one that Arrow infers, and are an error if they would not be the same in it.
    ``value_type="json"`` makes each value its text.
    """
    as_text = _check_value_type(store, value_type)
    if isinstance(keys, pyarrow.ChunkedArray):
        keys = keys.combine_chunks()
    names = _keys_of(store, keys, "keys")
    kind = _row_type(store)
    if kind is not None and isinstance(names, numpy.ndarray):
        values, found = store.get_many(names)
        return _rows(kind, values, found)
    objects = names.tolist() if isinstance(names, numpy.ndarray) else names
    values = store.get_many(objects)
    if kind is not None:
        found = numpy.array([value is not None for value in values], dtype=bool)
        first = next((value for value in values if value is not None), None)
        if first is None:
            return pyarrow.nulls(len(values), kind)
        nothing = numpy.zeros_like(first)
        return _rows(kind, numpy.array([nothing if value is None else value for value in values]), found)
    if as_text:
        _, encode, _ = _functions(store)
        return pyarrow.array([None if value is None else encode(value) for value in values], type=pyarrow.string())
    return _inferred(values, objects, pyarrow.binary() if store.value_codec == "raw" else value_type)


def _rows(kind: pyarrow.DataType, rows: Any, found: Any = None) -> pyarrow.Array:
    """Returns an array of NumPy as numbers, or as lists of a fixed size, by its buffer; null where a row is not found."""
    kinds = [kind]
    while pyarrow.types.is_fixed_size_list(kinds[-1]):
        kinds.append(kinds[-1].value_type)
    item = kinds.pop()
    is_null = None if found is None or found.all() else ~found
    if not kinds:
        return pyarrow.array(rows, type=item, mask=is_null)
    missing = None if is_null is None else pyarrow.array(is_null)
    column = pyarrow.array(rows.reshape(-1), type=item)
    for own in reversed(kinds):
        column = pyarrow.FixedSizeListArray.from_arrays(column, type=own, mask=missing if own is kind else None)
    return column


def _inferred(values: list[Any], keys: list[Any], kind: pyarrow.DataType | None) -> pyarrow.Array:
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


# Whole stores out.

#: What a column of the texts of JSON values has in the metadata of its field.
TEXT_METADATA = {"siltstone.values": "json"}


def _column(kind: pyarrow.DataType, count: int, buffers: tuple[bytes, bytes | None]) -> pyarrow.Array:
    """Returns a column over the bytes of its items and their ends."""
    items, ends = buffers
    parts = [None, pyarrow.py_buffer(items)] if ends is None else [None, *map(pyarrow.py_buffer, (ends, items))]
    return pyarrow.Array.from_buffers(kind, count, parts)


def _functions(store: Any) -> Any:
    """Returns what `value_functions` returns of the values of a store that are objects."""
    return _codecs.value_functions(store.value_codec)


class _Source:
    """Batches of all records, with the values of the type of the first batch."""

    def __init__(self, store: Any, batch_size: int, kind: pyarrow.DataType | None, *, as_text: bool) -> None:
        self.store = store
        self.batch_size = batch_size
        self.key_type = _key_type(store)
        self.array = _codecs.array_shape(store.value_codec)
        self.row_type = _row_type(store)
        self.kind = self.row_type or (pyarrow.binary() if store.value_codec == "raw" else kind)
        self.as_text = as_text
        self.is_first = True

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """Returns the batches."""
        records = self.store._iter_items()
        while (batch := self.next(records)) is not None:
            yield batch
            # Its memory is free before the next one needs its own.
            del batch

    def next(self, records: Any) -> pyarrow.RecordBatch | None:
        """Returns the next batch, or None at the end."""
        length = None
        if self.array is not None:
            item, shape = self.array
            length = item.itemsize * int(numpy.prod(shape, dtype=int))
        is_json = self.store.value_codec == "json"
        found = records._columns(self.batch_size, value_length=length, text=is_json)
        if found is None:
            return None
        count, keys, values = found
        names = _column(self.key_type, count, keys)
        column = self._values(names, count, values)
        self.is_first = False
        return pyarrow.record_batch([names, column], schema=self.schema(column.type))

    def schema(self, kind: pyarrow.DataType) -> pyarrow.Schema:
        """Returns the schema of batches whose values have a type."""
        metadata = TEXT_METADATA if self.as_text else None
        return pyarrow.schema([("key", self.key_type), pyarrow.field("value", kind, metadata=metadata)])

    def empty(self) -> pyarrow.Schema:
        """Returns the schema of a store without records."""
        return self.schema(pyarrow.string() if self.as_text else self.kind or pyarrow.null())

    def _values(self, names: pyarrow.Array, count: int, buffers: tuple[bytes, bytes | None]) -> pyarrow.Array:
        if self.array is not None:
            item, shape = self.array
            return _rows(self.row_type, numpy.frombuffer(buffers[0], dtype=item).reshape(count, *shape))
        if self.store.value_codec == "raw":
            return _column(pyarrow.binary(), count, buffers)
        stored = _column(pyarrow.string() if self.store.value_codec == "json" else pyarrow.binary(), count, buffers)
        if self.as_text:
            return stored
        keys = names.to_pylist()
        try:
            column = _inferred(self._decoded(keys, stored.to_pylist()), keys, self.kind)
        except SettingError:
            if self.store.value_codec != "json" or self.kind is not None or not self.is_first:
                raise
            self.as_text = True
            return stored
        # A later batch has the type of the first one, or is refused.
        self.kind = column.type
        return column

    def _decoded(self, keys: list[Any], stored: list[Any]) -> list[Any]:
        _, _, decode = _functions(self.store)
        values = []
        for key, value in zip(keys, stored):
            try:
                values.append(decode(value))
            except Exception as error:
                raise DecodeError(
                    f"the value of the key {_short(key)} cannot be decoded: {error}; the record is as it was: put "
                    "another value, or delete the key"
                ) from error
        return values


def _check_value_type(store: Any, value_type: Any) -> bool:
    """Returns whether values are to be their text."""
    as_text = isinstance(value_type, str)
    if as_text and value_type != "json":
        raise SettingError(f'value_type: `{value_type}` is neither a type of pyarrow nor "json"')
    if value_type is not None and store.value_codec != "json" and (as_text or store.value_codec != "pickle"):
        raise SettingError(
            f"value_type: the values of the codec `{store.value_codec}` have their own type; leave it out"
        )
    return as_text


def reader(
    store: Any, batch_size: int = 65_536, *, value_type: pyarrow.DataType | str | None = None
) -> pyarrow.RecordBatchReader:
    """Returns all records of a snapshot as a stream of batches with the columns ``key`` and ``value``.

    A batch has up to `batch_size` records, and no more once it has 64 MiB. The reader needs the memory of three
    batches. Raw values are of type ``binary``, numbers have their type, and arrays are lists of a fixed
    size of their items.

    The type of JSON and of pickled values is `value_type`, or the one that Arrow infers from the first batch. A value
    that would not be the same in it is a `SettingError`; only a field that a dict does not have is null. If the JSON
    values of the first batch have no common type, all values come as their text; ``value_type="json"`` states that. The
    field of such a column has the metadata ``siltstone.values: json``.
    """
    if batch_size < 1:
        raise SettingError(f"batch_size: {batch_size} is not above 0")
    as_text = _check_value_type(store, value_type)
    source = _Source(store, batch_size, None if as_text else value_type, as_text=as_text)
    batches = source.batches()
    first = next(batches, None)
    if first is None:
        return pyarrow.RecordBatchReader.from_batches(source.empty(), [])
    return pyarrow.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
