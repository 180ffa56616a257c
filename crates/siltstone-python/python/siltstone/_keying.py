"""The bytes that represent the value of an argument: equal bytes mean the same value, in every process.

Each value is its type, its length and its content, so no two values share their bytes. A type that is not here is
refused: its text may leave out what differs, and its address is used again.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import hashlib
import pathlib
import struct
import sys
import uuid
import zoneinfo
from typing import Any, Callable

KNOWN = (
    "None, bool, int, float, complex, str, bytes, range, slice, dates and times, Decimal, Fraction, UUID, paths, Enum, "
    "arrays of NumPy, and tuples, lists, dicts and sets of these"
)


def bytes_of(value: Any) -> bytes:
    """Returns the bytes of a value.

    Raises `TypeError` for a type that is not known.
    """
    try:
        return _bytes_of(value)
    except RecursionError:
        raise TypeError("the value contains itself, or is nested too deeply") from None


def _bytes_of(value: Any) -> bytes:
    kind = type(value)
    parts = _PARTS.get(kind)
    if parts is None:
        parts = _parts_of_family(value)
    content = parts(value)
    return _framed(kind.__module__.encode() + b"." + kind.__qualname__.encode(), content)


def _framed(name: bytes, content: bytes) -> bytes:
    return struct.pack("<IQ", len(name), len(content)) + name + content


def _joined(values: Any) -> bytes:
    return b"".join(map(_bytes_of, values))


def _time_zone(zone: datetime.tzinfo | None) -> Any:
    if zone is None:
        return None
    if type(zone) is datetime.timezone:
        return zone.utcoffset(None)
    if type(zone) is zoneinfo.ZoneInfo and zone.key is not None:
        return zone.key
    raise _unknown(zone)


def _datetime(value: datetime.datetime | datetime.time) -> bytes:
    return _joined((value.replace(tzinfo=None, fold=0).isoformat(), value.fold, _time_zone(value.tzinfo)))


def _set(values: Any) -> bytes:
    return b"".join(sorted(map(_bytes_of, values)))


_PARTS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"",
    type(Ellipsis): lambda value: b"",
    bool: lambda value: b"\x01" if value else b"\x00",
    int: lambda value: value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True),
    # With the sign of zero and the bits of a NaN.
    float: lambda value: struct.pack("<d", value),
    complex: lambda value: struct.pack("<dd", value.real, value.imag),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bytes: lambda value: value,
    bytearray: bytes,
    range: lambda value: _joined((value.start, value.stop, value.step)),
    slice: lambda value: _joined((value.start, value.stop, value.step)),
    datetime.date: lambda value: value.isoformat().encode(),
    datetime.time: _datetime,
    datetime.datetime: _datetime,
    datetime.timedelta: lambda value: _joined((value.days, value.seconds, value.microseconds)),
    datetime.timezone: lambda value: _bytes_of(value.utcoffset(None)),
    zoneinfo.ZoneInfo: lambda value: _bytes_of(_time_zone(value)),
    decimal.Decimal: lambda value: _joined(value.as_tuple()[:]),
    fractions.Fraction: lambda value: _joined((value.numerator, value.denominator)),
    uuid.UUID: lambda value: value.bytes,
    tuple: _joined,
    list: _joined,
    # In their order, which a function can see.
    dict: lambda value: b"".join(_bytes_of(key) + _bytes_of(item) for key, item in value.items()),
    set: _set,
    frozenset: _set,
}


def _parts_of_family(value: Any) -> Callable[[Any], bytes]:
    """Returns the function of a type that is one of many, such as the enumerations of a program."""
    if isinstance(value, enum.Enum):
        return lambda member: _joined((member.name, member.value))
    if type(value).__module__.partition(".")[0] == "pathlib" and isinstance(value, pathlib.PurePath):
        return lambda path: str(path).encode("utf-8", "surrogateescape")
    numpy = sys.modules.get("numpy")
    if numpy is not None and (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        return _array
    raise _unknown(value)


def _array(value: Any) -> bytes:
    """An array or an item of NumPy: type, shape and items in the order of C."""
    import numpy

    array = numpy.asarray(value)
    if array.dtype.hasobject:
        raise _unknown(value, f" of the type {array.dtype}")
    kind = repr(array.dtype) if array.dtype.names else array.dtype.str
    return _joined((kind, list(array.shape), hashlib.blake2b(array.tobytes(), digest_size=32).digest()))


def _unknown(value: Any, more: str = "") -> TypeError:
    return TypeError(f"{type(value).__module__}.{type(value).__qualname__}{more} is not a type whose values are known")
