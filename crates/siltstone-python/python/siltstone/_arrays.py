"""Arrays of NumPy in and out. Nothing here is imported unless a call has an array."""

from __future__ import annotations

import sys

from . import _codecs
from ._errors import SettingError

# As in `typing`, which takes longer to import than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any


def is_array(keys: Any) -> bool:
    """Returns whether keys are an array and not an iterable of objects."""
    return hasattr(keys, "__array_interface__")


def equal(one: Any, other: Any) -> bool:
    """Returns whether two arrays have one shape and equal items. An item that is not a number equals itself."""
    import numpy

    return numpy.array_equal(one, other, equal_nan=True)


# Values that a codec of arrays stores.


def cast(values: Any, item: Any, codec: str) -> Any:
    """Returns values as a contiguous array of a type, if they fit: no number changes but by the rounding of a float.

    Raises `SettingError` otherwise.
    """
    import numpy

    _refuse_masked(values)
    array = numpy.asarray(values)
    if array.dtype == item:
        return _contiguous(array)
    fits = array.dtype.kind in {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}[item.kind]
    if not fits and item.kind in "iu" and not is_array(values):
        # NumPy makes floats of a list of 2**64 - 1 and 0.
        exact = numpy.array(values, dtype=object)
        if all(isinstance(number, (int, numpy.integer)) for number in exact.flat):
            array, fits = exact, True
    if not array.size:
        return numpy.zeros(array.shape, dtype=item)
    if not fits:
        raise SettingError(
            f"values: items of the type {array.dtype} do not fit the codec `{codec}`; convert them, or create the "
            "database with a codec of their type"
        )
    wrong, limit = False, ""
    if item.kind in "iu":
        limits = numpy.iinfo(item)
        # As numbers of Python, since no type of NumPy has both ends of int64 and uint64.
        wrong = int(array.max()) > limits.max or int(array.min()) < limits.min
        limit = f"{limits.min} to {limits.max}"
    with numpy.errstate(all="ignore"):
        row = _contiguous(array.astype(item))
    if item.kind in "fc" and array.dtype.kind in "iu":
        wrong = _is_wide(array, item) and any(float(new.real) != int(old) for new, old in zip(row.flat, array.flat))
        limit = f"whole numbers that {item.name} has exactly"
    elif item.kind in "fc":
        wrong = not numpy.array_equal(numpy.isfinite(array), numpy.isfinite(row))
        limit = f"up to {numpy.finfo(item).max}"
    elif item.kind == "b":
        return row
    if wrong:
        raise SettingError(
            f"values: a number that does not fit the codec `{codec}`: its range is {limit}; create the database with a "
            "larger type"
        )
    return row


def _is_wide(array: Any, item: Any) -> bool:
    """Returns whether some of the whole numbers may have more digits than a type of floats."""
    import numpy

    exact = 1 << (numpy.finfo(item).nmant + 1)
    return int(array.max()) > exact or int(array.min()) < -exact


def _contiguous(array: Any) -> Any:
    import numpy

    # `ascontiguousarray` makes a single item an array of one.
    return numpy.ascontiguousarray(array).reshape(array.shape)


def _refuse_masked(values: Any) -> None:
    """Raises `SettingError` if items are masked: NumPy would take what is below the mask."""
    masked = sys.modules.get("numpy.ma")
    if masked is None:
        return
    if isinstance(values, masked.MaskedArray):
        if masked.getmaskarray(values).any():
            raise SettingError("values: a masked array with masked items; fill them first, as by `filled(0)`")
    elif isinstance(values, (list, tuple)):
        for value in values:
            if isinstance(value, (list, tuple, masked.MaskedArray)):
                _refuse_masked(value)


# Many records.


def _row_of(owner: Any) -> tuple[Any, tuple[int, ...]]:
    """Returns the type and the shape of a value of a store whose values have one size."""
    import numpy

    array = _codecs.array_shape(owner.value_codec)
    if array is not None:
        return array
    fixed = owner._fixed()
    if fixed is None or owner.value_codec != "raw":
        raise SettingError(
            f"get_many: values of the codec `{owner.value_codec}` and of any size do not fit into an array; pass a "
            'list of keys, or create the database with values="float32[64]", or with fixed=(8, 256)'
        )
    return numpy.dtype(numpy.uint8), (fixed[1],)


def get_many(owner: Any, keys: Any, out: Any) -> Any:
    """Returns the values and which keys exist. Rows of absent keys are zero in a new array, and kept in `out`."""
    import numpy

    rows, objects = _keys(owner, keys, is_write=False)
    count = len(objects) if rows is None else len(rows)
    if out is None or owner.value_codec != "raw":
        item, shape = _row_of(owner)
        values = numpy.zeros((count, *shape), dtype=item) if out is None else out
        if values.dtype != item or values.shape[1:] != shape:
            row_bytes = item.itemsize * int(numpy.prod(shape))
            raise SettingError(
                f"out: rows of shape {values.shape[1:]} and type {values.dtype}, but the values are `{owner.value_codec}`, "
                f"{row_bytes} bytes each"
            )
    else:
        values = out
    found = numpy.zeros(count, dtype=numpy.bool_)
    if rows is not None:
        # Rows are written while keys are looked up.
        rows = rows.copy() if numpy.may_share_memory(rows, values) else rows
        owner._get_array(rows, values, found)
        return values, found
    if len(values) != count:
        raise SettingError(f"out: {len(values)} rows for {count} keys; use arrays of one length")
    for at, value in enumerate(owner._get_many(objects)):
        if value is not None:
            found[at] = True
            values[at] = numpy.frombuffer(value, dtype=values.dtype).reshape(values.shape[1:])
    return values, found


def contains_many(owner: Any, keys: Any) -> Any:
    """Returns which keys exist."""
    import numpy

    rows, objects = _keys(owner, keys, is_write=False)
    if rows is None:
        return numpy.array(owner._contains_many(objects), dtype=numpy.bool_)
    found = numpy.zeros(len(rows), dtype=numpy.bool_)
    owner._contains_array(rows, found)
    return found


def put_many(
    owner: Any, keys: Any, values: Any, expire: float | timedelta | None, durability: str | None, report: Any
) -> int:
    """Puts the rows of an array."""
    rows, pairs = _records(owner, keys, values)
    count: int
    if rows is None:
        count = owner._put_many(pairs, expire=expire, durability=durability, progress=report)
    else:
        count = owner._put_array(*rows, expire=expire, durability=durability, progress=report)
    return count


def insert_many_if_absent(
    owner: Any, keys: Any, values: Any, expire: float | timedelta | None, durability: str | None
) -> Any:
    """Puts the rows whose keys are absent, and returns which were put."""
    import numpy

    rows, pairs = _records(owner, keys, values)
    if rows is None:
        flags = owner._insert_many_if_absent(pairs, expire=expire, durability=durability)
        return numpy.array(flags, dtype=numpy.bool_)
    inserted = numpy.zeros(len(rows[0]), dtype=numpy.bool_)
    owner._insert_array(*rows, inserted, expire=expire, durability=durability)
    return inserted


def _records(owner: Any, keys: Any, values: Any) -> tuple[Any, Any]:
    """Returns arrays of keys and rows, or None and pairs of objects where a record needs its codec."""
    key_rows, key_objects = _keys(owner, keys, is_write=True)
    value_rows, value_objects = _values(owner, values)
    if key_objects is None and value_objects is None:
        return (key_rows, value_rows), None
    if key_objects is None:
        key_objects = list(key_rows) if key_rows.ndim > 1 else key_rows.tolist()
    if value_objects is None:
        value_objects = list(value_rows)
    if len(key_objects) != len(value_objects):
        raise SettingError(f"values: {len(value_objects)} rows for {len(key_objects)} keys; use arrays of one length")
    return None, zip(key_objects, value_objects)


def _values(owner: Any, values: Any) -> tuple[Any, Any]:
    """Returns values as rows of the type of the database, or None and objects that its codec encodes."""
    import numpy

    array = _codecs.array_shape(owner.value_codec)
    if array is not None:
        item, shape = array
        rows = cast(values, item, owner.value_codec)
        if rows.shape[1:] != shape or not rows.ndim:
            raise SettingError(
                f"values: rows of shape {rows.shape[1:]}, but the values of the database are `{owner.value_codec}`"
            )
        return rows, None
    _refuse_masked(values)
    if owner.value_codec == "pickle" or _is_list_of_objects(values):
        return None, list(values)
    items = numpy.asarray(values)
    if items.dtype.kind in "mM":
        raise SettingError(f"values: the codec `{owner.value_codec}` has no dates; convert them to numbers or strings")
    if owner.value_codec != "raw" or items.dtype.kind in "OU" or _loses_padding(owner, items, 1):
        # Items that NumPy pads with zeros lose them here.
        return None, items.tolist()
    return _bytes_of_strings(items) if items.dtype.kind == "S" else _contiguous(items), None


def _is_list_of_objects(items: Any) -> bool:
    """Returns whether items are a list of objects of Python: NumPy would give all of them one type."""
    return isinstance(items, (list, tuple)) and not any(is_array(item) for item in items)


def _bytes_of_strings(array: Any) -> Any:
    """Returns a row of bytes per string of bytes: the buffer protocol has no strings."""
    import numpy

    return _contiguous(array).view(numpy.uint8).reshape(len(array), array.dtype.itemsize)


def _loses_padding(owner: Any, array: Any, part: int) -> bool:
    """Returns whether an array has strings of bytes that are not keys (0) or values (1) of exactly the fixed size."""
    if array.dtype.kind != "S":
        return False
    fixed = owner._fixed()
    return fixed is None or array.ndim != 1 or fixed[part] != array.dtype.itemsize


def _keys(owner: Any, keys: Any, *, is_write: bool) -> tuple[Any, Any]:
    """Returns keys as an array of the type of the database, or None and objects that its codec encodes."""
    import numpy

    _refuse_masked(keys)
    wanted = {"int": numpy.int64, "uint": numpy.uint64}.get(owner.key_codec)
    if wanted is None and _is_list_of_objects(keys):
        return None, list(keys)
    keys = numpy.asarray(keys)
    if wanted is not None:
        if keys.ndim != 1:
            raise SettingError(f"keys: an array of shape {keys.shape}, but keys that are numbers need one dimension")
        if keys.dtype == wanted or keys.dtype.kind not in "iu":
            return _contiguous(keys), None
        limits = numpy.iinfo(wanted)
        if keys.size and not limits.min <= int(keys.min()) <= int(keys.max()) <= limits.max:
            if is_write:
                name = "negative numbers" if owner.key_codec == "uint" else "numbers of 2**63 or more"
                raise SettingError(f"keys: {name}, but the keys of the database are `{owner.key_codec}`")
            return None, keys.tolist()
        return keys.astype(wanted), None
    if keys.dtype.kind in "OU" or _loses_padding(owner, keys, 0):
        return None, keys.tolist()
    return _bytes_of_strings(keys) if keys.dtype.kind == "S" else _contiguous(keys), None
