"""Arrays of NumPy in and out. Nothing here is imported unless a call has an array."""

from __future__ import annotations


from . import _codecs
from ._errors import SettingError

# As in `typing`, which takes longer to import than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_array(keys: Any) -> bool:
    """Returns whether keys are an array and not an iterable of objects."""
    return hasattr(keys, "__array_interface__")


def _rows(owner: Any, count: int) -> Any:
    """Returns an array of zeros for `count` values of a store whose values have one size."""
    import numpy

    array = _codecs.array_shape(owner.value_codec)
    if array is not None:
        item, shape = array
        return numpy.zeros((count, *shape), dtype=item)
    fixed = owner._fixed()
    if fixed is None:
        raise SettingError(
            "get_many: values of any size do not fit into an array; pass a list of keys, or create the database "
            'with fixed=(8, 256) or with values="float32[64]"'
        )
    return numpy.zeros((count, fixed[1]), dtype=numpy.uint8)


def get_many(owner: Any, keys: Any, out: Any) -> Any:
    """Returns the values and which keys exist. Rows of absent keys are zero in a new array, and kept in `out`."""
    import numpy

    keys = _contiguous(owner, keys)
    values = _rows(owner, len(keys)) if out is None else out
    found = numpy.empty(len(keys), dtype=numpy.bool_)
    owner._get_array(keys, values, found)
    return values, found


def contains_many(owner: Any, keys: Any) -> Any:
    """Returns which keys exist."""
    import numpy

    keys = _contiguous(owner, keys)
    found = numpy.empty(len(keys), dtype=numpy.bool_)
    owner._contains_array(keys, found)
    return found


def put_many(owner: Any, keys: Any, values: Any, expire: float | None, durability: str | None) -> int:
    """Puts the rows of an array."""
    count: int = owner._put_array(
        _contiguous(owner, keys), values_of(owner, values), expire=expire, durability=durability
    )
    return count


def insert_many_if_absent(owner: Any, keys: Any, values: Any) -> Any:
    """Puts the rows whose keys are absent, and returns which were put."""
    import numpy

    keys = _contiguous(owner, keys)
    inserted = numpy.empty(len(keys), dtype=numpy.bool_)
    owner._insert_array(keys, values_of(owner, values), inserted)
    return inserted


def values_of(owner: Any, values: Any) -> Any:
    """Returns values as contiguous rows of the type of the database."""
    import numpy

    array = _codecs.array_shape(owner.value_codec)
    if array is None:
        return numpy.ascontiguousarray(values)
    item, shape = array
    rows = numpy.ascontiguousarray(values, dtype=item)
    if rows.shape[1:] != shape:
        raise SettingError(
            f"values: rows of shape {rows.shape[1:]}, but the values of the database are `{owner.value_codec}`"
        )
    return rows


def _contiguous(owner: Any, keys: Any) -> Any:
    """Returns keys as a contiguous array. Numbers of other sizes become those of the database."""
    import numpy

    keys = numpy.ascontiguousarray(keys)
    wanted = {"int": numpy.int64, "uint": numpy.uint64}.get(owner.key_codec)
    if wanted is None or keys.dtype == wanted or keys.ndim != 1 or keys.dtype.kind not in "iu":
        if keys.dtype.kind == "S":
            # The buffer protocol has no strings.
            return keys.view(numpy.uint8).reshape(len(keys), keys.dtype.itemsize)
        return keys
    if keys.dtype.kind == "i" and wanted is numpy.uint64 and (keys < 0).any():
        raise SettingError("keys: negative numbers, but the keys of the database are `uint`")
    if keys.dtype == numpy.uint64 and wanted is numpy.int64 and (keys >= 1 << 63).any():
        raise SettingError("keys: numbers of 2**63 or more, but the keys of the database are `int`")
    return keys.astype(wanted)
