"""Codecs by name, and the file in which a database remembers them."""

from __future__ import annotations

import os

from ._errors import CorruptError, DeviceError, SettingError, UnsupportedError

# As in `typing`, which takes longer to import than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    import numpy

    #: The name of a codec, or a type of Python or NumPy.
    CodecName = str | type[Any] | numpy.dtype[Any]

    #: What a value codec is for the extension module; None is raw.
    Functions = tuple[str, Callable[[Any], Any], Callable[[Any], Any]]

#: The file with the codecs. The library knows its name, and copies it to checkpoints.
FILE = "CODECS"

#: The length of that file, at most, in characters.
LENGTH_MAX = 4096


#: The names of codecs of keys, besides those of the extension module.
KEY_NAMES: dict[Any, str] = {
    bytes: "bytes",
    str: "str",
    int: "int",
    "int64": "int",
    "i8": "int",
    "uint64": "uint",
    "u8": "uint",
}

#: The codecs of values that are no numbers.
PLAIN = ("raw", "json", "pickle")


def key_name(keys: CodecName) -> str:
    """Returns the one name of a codec of keys, which may be stated as a type of Python or of NumPy."""
    if isinstance(keys, (str, type)) and keys in KEY_NAMES:
        return KEY_NAMES[keys]
    if isinstance(keys, str):
        return keys
    item = _item_type(keys)
    if item is None or item.shape or item.name not in KEY_NAMES:
        raise SettingError(f"keys: there is no codec {keys!r}; use one of bytes, str, int (64 bits), uint (64 bits)")
    return KEY_NAMES[item.name]


def value_name(values: CodecName) -> str:
    """Returns the one name of a codec of values: those of numbers have several, such as ``f4[64]``.

    A type of Python or of NumPy is a name as well.
    """
    if values is bytes:
        return "raw"
    if isinstance(values, str):
        array = array_shape(values)
        if array is None:
            return values
        item, shape = array
    else:
        kind = _item_type(values)
        if kind is None:
            raise SettingError(_unknown(repr(values)))
        item, shape = _number_type(kind.base, repr(values)), kind.shape
    return f"{item.name}[{','.join(map(str, shape))}]" if shape else str(item.name)


def _unknown(name: str) -> str:
    numbers = "a type of numbers such as float32, or an array of them such as float32[64]"
    return f"values: there is no codec `{name}`; use one of {', '.join(PLAIN)}, {numbers}"


def _item_type(name: Any) -> numpy.dtype[Any] | None:
    """Returns the type of NumPy with a name; None if there is none."""
    import numpy

    try:
        item: numpy.dtype[Any] = numpy.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        return None
    return item


def _number_type(item: numpy.dtype[Any], name: str) -> numpy.dtype[Any]:
    """Returns a type of numbers in the order of bytes on flash."""
    if item.kind not in "biufc":
        raise SettingError(f"values: `{name}` is not a type of numbers; use one such as float32 or float32[64]")
    return item.newbyteorder("<")


def array_shape(values: str) -> tuple[numpy.dtype[Any], tuple[int, ...]] | None:
    """Returns the item type and the shape of a codec such as ``float32[64]`` or ``float32``; None for other codecs."""
    if values in PLAIN:
        return None
    import re

    match = re.fullmatch(r"([<>=|]?[a-z]+[0-9]*)(?:\[([0-9]+(?:,[0-9]+)*)\])?", values.replace(" ", ""))
    if match is None:
        return None
    item = _item_type(match[1])
    if item is None and match[2] is None:
        return None
    if item is None:
        raise SettingError(f"values: NumPy has no type `{match[1]}`; use one such as float32[64]")
    shape = tuple(map(int, match[2].split(","))) if match[2] else ()
    return _number_type(item, match[1]), shape


def value_functions(values: str) -> Functions | None:
    """Returns the functions of a codec of values."""
    if values == "raw":
        return None
    if values == "json":
        import json

        encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return "text", encoder.encode, json.loads
    if values == "pickle":
        import pickle

        return "binary", lambda value: pickle.dumps(value, protocol=4), pickle.loads
    array = array_shape(values)
    if array is None:
        raise SettingError(_unknown(values))
    import numpy

    from ._arrays import cast

    item, shape = array

    def encode(value: Any) -> Any:
        row = cast(value, item, values)
        if row.shape != shape:
            raise SettingError(f"values: an array of shape {row.shape}, but the codec is `{values}`; reshape it")
        return row

    def decode(value: bytes) -> Any:
        # A single number is one of NumPy's, and not an array.
        return numpy.frombuffer(value, dtype=item).reshape(shape)[()]

    return "binary", encode, decode


def remembered(path: str | os.PathLike[str]) -> dict[str, str]:
    """Returns the codecs that the database in a directory remembers; nothing if it has the default ones."""
    file = os.path.join(path, FILE)
    try:
        # Another user may have made the directory: a pipe is not waited for, and a long file not read.
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):  # opening the database says what is there
        return {}
    except OSError as error:
        raise DeviceError(f"cannot read {file}: {error.strerror}; check the owner and mode of the directory") from error
    import json
    import stat

    with open(descriptor, encoding="utf-8") as text:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _damaged(file, "it is not a file")
        try:
            codecs = json.loads(text.read(LENGTH_MAX + 1)[:LENGTH_MAX])
        except (ValueError, RecursionError) as error:
            raise _damaged(file, str(error)) from None
    if not isinstance(codecs, dict) or codecs.get("version") != 1:
        raise _damaged(file, "it is not of version 1")
    known = {name: codecs[name] for name in ("keys", "values") if name in codecs}
    if not all(isinstance(name, str) for name in known.values()):
        raise _damaged(file, "a codec is not a name")
    return known


def _damaged(file: str, problem: str) -> CorruptError:
    remedy = "remove the file, and state keys= and values= at the next open"
    error = CorruptError(f"{file}: the codecs of the database cannot be read: {problem}; {remedy}")
    error.file, error.offset, error.remedy = file, 0, remedy
    return error


def remember(path: str | os.PathLike[str], keys: str, values: str) -> None:
    """Writes the codecs into the directory of a database, durably."""
    import json

    with StandardDescriptors():
        _replace(path, json.dumps({"version": 1, "keys": keys, "values": values}))


def _replace(path: str | os.PathLike[str], content: str) -> None:
    file = os.path.join(path, FILE)
    new = file + ".new"
    # Whatever has this name is replaced, and never followed.
    if os.path.lexists(new):
        os.unlink(new)
    with open(new, "x", encoding="utf-8") as text:
        text.write(content + "\n")
        text.flush()
        os.fsync(text.fileno())
    os.replace(new, file)
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class StandardDescriptors:
    """Keeps the descriptors 0 to 2 in use, so no file of a database gets one of them.

    In a process that has closed them, a message to standard error would be written into that file.
    """

    def __enter__(self) -> None:
        self.taken: list[int] = []
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            self.taken.append(descriptor)
        os.close(descriptor)

    def __exit__(self, *_: object) -> None:
        for descriptor in self.taken:
            os.close(descriptor)


def choose(
    path: str | os.PathLike[str], keys: CodecName | None, values: CodecName | None
) -> tuple[str, str, bool]:
    """Returns the codecs of keys and values, and whether the file already has them.

    What the directory says is data: it does not choose a codec that runs code.
    """
    known = remembered(path)
    keys = None if keys is None else key_name(keys)
    values = None if values is None else value_name(values)
    # An older version kept a name as it was stated.
    if "values" in known and known["values"] != values:
        known["values"] = value_name(known["values"])
    if "keys" in known:
        known["keys"] = key_name(known["keys"])
    for name, stated in (("keys", keys), ("values", values)):
        if stated is not None and name in known and known[name] != stated:
            raise SettingError(
                f"{name}: the codec is `{stated}`, but the database in {os.fspath(path)} has `{known[name]}`; "
                f"leave {name}= out"
            )
    if known.get("values") == "pickle" and values is None:
        raise UnsupportedError(
            f"{os.fspath(path)}: the values are pickled, and reading them runs code that they name; if only you can "
            'write to the directory, open it with values="pickle"'
        )
    keys = known.get("keys", keys or "bytes")
    values = known.get("values", values or "raw")
    return keys, values, bool(known) or (keys, values) == ("bytes", "raw")
