"""DataFrames of pandas in and out. Needs ``pandas``.

>>> import pandas, siltstone, tempfile
>>> from siltstone.pandas import put_frame
>>> users = pandas.DataFrame({"name": ["Ada", "Grace"], "born": [1815, 1906]}, index=[17, 18])
>>> with siltstone.open(tempfile.mkdtemp() + "/users", keys="int", values="json") as db:
...     put_frame(db, users)
...     db[17]
...     db.to_pandas().sort_index()
2
{'name': 'Ada', 'born': 1815}
      name  born
key             
17     Ada  1815
18   Grace  1906
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy
import pandas  # type: ignore[import-untyped, unused-ignore]

from . import _arrays, _codecs
from ._errors import SettingError

#: The rows that are converted at a time.
PIECE = 16_384


def put_frame(
    store: Any,
    frame: Any,
    key: Hashable | None = None,
    value: Hashable | list[Hashable] | None = None,
    *,
    expire: Any = None,
    durability: str | None = None,
    progress: Any = None,
) -> int:
    """Puts the rows of a DataFrame, or the items of a Series, and returns their number.

    `key` is the column of keys; by default they are the index. `value` is

    - a column: each value is its item;
    - a list of columns, or by default all but that of the keys: each value is a dict by column for ``json`` and
      ``pickle``, where a missing item is None, and a row of numbers for a codec such as ``float32[3]``.

    Of two rows with one key, the last one stays. The rows are written in batches, as by `Database.put_many`, which has
    `expire`, `durability` and `progress` as well. A missing key, and a missing value that is not an item of a dict or a
    number of floats, is a `SettingError` that names the column, as is a type that the codec does not have.
    """
    from ._progress import reporting

    if isinstance(frame, pandas.Series):
        if key is not None or value is not None:
            raise SettingError("frame: a Series has an index and items; leave key= and value= out")
        frame, value = frame.to_frame("value"), "value"
    if not isinstance(frame, pandas.DataFrame):
        raise SettingError(
            f"frame: {type(frame).__name__} is no DataFrame of pandas; use siltstone.arrow.put_table for other tables"
        )
    _check_columns(frame, key, value)
    count = 0
    with reporting(progress, "put_frame", " records") as report:
        for start in range(0, len(frame), PIECE):
            piece = frame.iloc[start : start + PIECE]
            keys, values = _keys(store, piece, key), _values(store, piece, key, value)
            if isinstance(keys, numpy.ndarray) and isinstance(values, numpy.ndarray):
                records: Any = (keys, values)
            else:
                records = (zip(keys.tolist() if isinstance(keys, numpy.ndarray) else keys, values),)
            count += store.put_many(*records, expire=expire, durability=durability)
            if report is not None:
                report(count, len(frame))
    return count


def _check_columns(frame: Any, key: Hashable | None, value: Any) -> None:
    """Checks that the columns exist once, and that the keys are one column."""
    if key is None and frame.index.nlevels > 1:
        raise SettingError("key: the index has several levels; name a column, or join the levels to one")
    for name in [key, *(value if isinstance(value, list) else [value])]:
        number = 1 if name is None else list(frame.columns).count(name)
        if number != 1:
            there = ", ".join(f"`{own}`" for own in frame.columns)
            raise SettingError(f"frame: there {'is no column' if not number else 'are several'} `{name}`; it has {there}")


def _keys(store: Any, frame: Any, key: Hashable | None) -> Any:
    """Returns the keys as an array of whole numbers or as a list."""
    column, name = (frame.index, "index") if key is None else (frame[key], f"column `{key}`")
    _refuse_missing(column, f"key: the {name}")
    if column.dtype.kind in "iu" and store.key_codec in ("int", "uint"):
        return _numbers(column)
    return _encoded(column.tolist()) if store.key_codec == "bytes" else column.tolist()


def _values(store: Any, frame: Any, key: Hashable | None, value: Any) -> Any:
    """Returns the values as an array of numbers, or as an iterable of objects."""
    array = _codecs.array_shape(store.value_codec)
    if value is None or isinstance(value, list):
        columns = frame[value] if value is not None else frame if key is None else frame.drop(columns=[key])
        if array is not None:
            return _matrix(columns, *array, store.value_codec)
        if store.value_codec == "raw":
            raise SettingError(
                'value: several columns are a dict, but the values are `raw`; name one column, or use values="json"'
            )
        return _dicts(store, columns)
    column = frame[value]
    if array is not None:
        item, shape = array
        if not (column.dtype.kind == "f" and item.kind in "fc"):
            _refuse_missing(column, f"value: the column `{value}`")
        return numpy.array(column.tolist()) if shape else _numbers(column)
    _refuse_missing(column, f"value: the column `{value}`")
    _refuse_kind(store, column, value)
    return _encoded(column.tolist()) if store.value_codec == "raw" else column.tolist()


def _numbers(column: Any) -> Any:
    """Returns a column as an array: what is missing among floats is NaN."""
    kind = getattr(column.dtype, "numpy_dtype", None)
    if kind is None:
        return column.to_numpy()
    return column.to_numpy(dtype=kind, **({"na_value": numpy.nan} if kind.kind == "f" else {}))


def _matrix(columns: Any, item: Any, shape: tuple[int, ...], codec: str) -> Any:
    """Returns columns of numbers as rows."""
    if shape != (columns.shape[1],) and not (shape == () and columns.shape[1] == 1):
        raise SettingError(
            f"value: {columns.shape[1]} columns, but the values are `{codec}`; name as many columns by value=, or one "
            "whose items are arrays"
        )
    parts = []
    for name, column in columns.items():
        if column.dtype.kind not in "biufc":
            raise SettingError(f"value: the column `{name}` has the type {column.dtype}, and not numbers for `{codec}`")
        if column.dtype.kind not in "fc":
            _refuse_missing(column, f"value: the column `{name}`")
        # One by one: the common type of all columns may not have each number.
        parts.append(_arrays.cast(_numbers(column), item, codec))
    return numpy.stack(parts, axis=1).reshape(len(columns), *shape)


def _dicts(store: Any, columns: Any) -> Iterator[dict[Any, Any]]:
    """Returns rows as dicts, in which what is missing is None."""
    names = list(columns.columns)
    if store.value_codec == "json" and not all(isinstance(name, str) for name in names):
        odd = next(name for name in names if not isinstance(name, str))
        raise SettingError(f"value: the column {odd!r} has a name that is no text, as JSON needs; rename it")
    lists = []
    for name, column in columns.items():
        _refuse_kind(store, column, name)
        missing = column.isna()
        items = column.tolist()
        lists.append([None if gone else item for item, gone in zip(items, missing)] if missing.any() else items)
    return (dict(zip(names, row)) for row in zip(*lists))


def _refuse_missing(column: Any, what: str) -> None:
    missing = int(column.isna().sum())
    if missing:
        raise SettingError(f"{what} has {missing} missing items; drop these rows, or fill them first")


def _refuse_kind(store: Any, column: Any, name: Hashable) -> None:
    """Refuses types that JSON does not have."""
    if store.value_codec == "json" and column.dtype.kind in "mMc":
        raise SettingError(
            f"value: the column `{name}` has the type {column.dtype}, which JSON does not have; convert it, as by "
            '`astype(str)`, or create the database with values="pickle"'
        )


def _encoded(objects: list[Any]) -> list[Any]:
    return [item.encode() if isinstance(item, str) else item for item in objects]


def to_frame(store: Any) -> Any:
    """Returns all records of a snapshot as a DataFrame, whose index is the keys, in the order of the engine.

    Values that are all dicts are columns by their keys, and what a dict does not have is missing. One-dimensional arrays
    are columns by number, with the type of their items. All other values are the column ``value``. All records are in
    memory at once: `siltstone.arrow.reader` reads them in batches.
    """
    array = _codecs.array_shape(store.value_codec)
    if array is not None:
        return _frame_of_rows(store, *array)
    keys, values = [], []
    for key, value in store.items():
        keys.append(key)
        values.append(value)
    index = _index(store, keys)
    if values and all(isinstance(value, dict) for value in values):
        names = dict.fromkeys(name for value in values for name in value)
        columns = {name: _series([value.get(name) for value in values], index) for name in names}
        return pandas.DataFrame(columns, index=index)
    return pandas.DataFrame({"value": _series(values, index)}, index=index)


#: The types of columns in which an item may be missing and the others stay as they are.
NULLABLE = {int: "Int64", bool: "boolean", float: "float64"}


def _series(items: list[Any], index: Any) -> Any:
    """Returns a column of objects, or of the one type that all have. No number changes."""
    kinds = {type(item) for item in items if item is not None}
    kind = NULLABLE.get(kinds.pop()) if len(kinds) == 1 and None in items else None
    if kind is not None:
        try:
            return pandas.Series(items, index=index, dtype=kind)
        except (OverflowError, TypeError):  # beyond 64 bits
            pass
    column = pandas.Series(items, index=index, dtype=object)
    typed = column.infer_objects()
    # Next to fractions pandas makes floats of whole numbers, of which those beyond 2**53 may be others.
    exact = typed.dtype.kind != "f" or all(float(item) == item for item in items if type(item) is int)
    return typed if exact else column


def _index(store: Any, keys: Any) -> Any:
    kind = {"int": numpy.int64, "uint": numpy.uint64}.get(store.key_codec)
    return pandas.Index(keys, name="key", dtype=kind or (None if len(keys) else object))


def _frame_of_rows(store: Any, item: Any, shape: tuple[int, ...]) -> Any:
    """Returns records whose values are numbers or arrays, without an object per number."""
    length = item.itemsize * int(numpy.prod(shape, dtype=int))
    records, keys, rows = store._iter_items(), [], []
    while (found := records._columns(PIECE, value_length=length)) is not None:
        count, names, (values, _) = found
        keys.append(_names(store, count, *names))
        rows.append(numpy.frombuffer(values, dtype=item).reshape(count, *shape))
    index = _index(store, numpy.concatenate(keys) if keys else [])
    table = numpy.concatenate(rows) if rows else numpy.zeros((0, *shape), dtype=item)
    if len(shape) == 1:
        return pandas.DataFrame(table, index=index)
    return pandas.DataFrame({"value": list(table) if shape else table}, index=index)


def _names(store: Any, count: int, items: bytes, ends: bytes | None) -> Any:
    """Returns the keys of a batch as an array."""
    if ends is None:
        return numpy.frombuffer(items, dtype=numpy.int64 if store.key_codec == "int" else numpy.uint64)
    keys = numpy.empty(count, dtype=object)
    bounds = numpy.frombuffer(ends, dtype=numpy.int32).tolist()
    for at, (start, end) in enumerate(zip(bounds, bounds[1:])):
        key = items[start:end]
        keys[at] = key.decode() if store.key_codec == "str" else key
    return keys
