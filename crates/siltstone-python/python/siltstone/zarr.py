"""A store of zarr 3 in a database. Needs zarr 3.1 or later.

::

    store = siltstone.zarr.SiltstoneStore("/data/arrays")
    array = zarr.create_array(store, name="temperature", shape=(365, 2000, 2000), chunks=(1, 500, 500), dtype="f4")

A chunk is a record: its key is the path of the chunk, such as ``temperature/c/0/3/1``, and its value the encoded bytes.
A new database keeps the order of keys, so listing reads keys and no chunks::

    list_dir("temperature/"):   range from "temperature/"  ->  "temperature/c/0/0/0"   a folder: c
                                range from "temperature/c0"  ->  "temperature/zarr.json"   a record
                                ("0" follows "/": the range skips all that is below the folder)
"""

# zarr 2 has no such module.
# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import Any

from ._errors import SettingError, UnsupportedError
from ._shared import Handle

try:
    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
    from zarr.core.buffer import Buffer, default_buffer_prototype
except ImportError as error:
    raise ImportError("siltstone.zarr needs zarr 3.1 or later; pip install 'siltstone[zarr]'") from error

#: The keys that one call on a thread lists.
KEYS_PER_CALL = 1000

#: The end of the error of a second process.
REMEDY = "write a store in one process, and let others read a checkpoint of its database with read_only=True"

#: The settings of a database that does not exist yet.
NEW = {"engine": "flashkey", "ordered": True}


class SiltstoneStore(Store):  # type: ignore[misc, unused-ignore]
    """A store of zarr in the directory `path`.

    `settings` are those of `siltstone.open`. A new database has the engine ``flashkey`` with ``ordered=True``, unless
    they name another one. A database that does not keep the order of keys reads all records to list any.

    The first use opens the database, and all stores of a process for one directory share it. With `read_only`, it is
    opened with the flag ``r``: any number of processes may do that while none writes. A store is pickled as its path
    and settings.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False, **settings: Any) -> None:
        super().__init__(read_only=read_only)
        for name in ("keys", "values"):
            if name in settings:
                raise SettingError(f"{name}: the keys of zarr are text, and its values bytes; leave {name}= out")
        self.path = os.path.abspath(os.fsdecode(path))
        self.settings = settings
        new = {} if "engine" in settings else NEW
        stated = {"keys": "str", "values": "raw", **settings}
        self._handle = Handle(self.path, stated, REMEDY, new=new, read_only=read_only)

    @property
    def supports_writes(self) -> bool:
        """True, also for a store that is `read_only`."""
        return True

    @property
    def supports_deletes(self) -> bool:
        """True."""
        return True

    @property
    def supports_listing(self) -> bool:
        """True."""
        return True

    @property
    def database(self) -> Any:
        """The open database, for `stats`, `sync`, `checkpoint` and `verify`."""
        self._is_open = True
        return self._handle.database

    async def _open(self) -> None:
        await super()._open()
        if not self.read_only:
            await asyncio.to_thread(lambda: self._handle.database)

    def close(self) -> None:
        """Gives the database back, which is closed when no store of the process uses it."""
        super().close()
        self._handle.close()

    def with_read_only(self, read_only: bool = False) -> SiltstoneStore:
        """Returns another store for the same directory."""
        return type(self)(self.path, read_only=read_only, **self.settings)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SiltstoneStore):
            return NotImplemented
        mine, others = (self.path, self.read_only, self.settings), (other.path, other.read_only, other.settings)
        return mine == others

    def __repr__(self) -> str:
        return f"SiltstoneStore({self.path!r}, read_only={self.read_only})"

    def __str__(self) -> str:
        return f"siltstone://{self.path}"

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.path, self.read_only, self.settings)

    # Values.

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """Returns the value of a key, or a range of its bytes, which reads the whole value. None if it is absent.

        The gets of one turn of the event loop are one lookup, whose reads overlap.
        """
        value = await self.database.aget(key)
        return None if value is None else _buffer(value, prototype, byte_range)

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> list[Any]:
        """Returns the values of many keys, or ranges of their bytes."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Returns whether a key exists, without its value."""
        return await asyncio.to_thread(self.database.__contains__, key)

    async def set(self, key: str, value: Any) -> None:
        """Sets the value of a key: at most 256 MiB."""
        self._check_writable()
        await self.database.aput(key, _bytes(value))

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        """Sets the value of a key that is absent. Atomic."""
        self._check_writable()
        await asyncio.to_thread(self.database.add, key, _bytes(value))

    async def delete(self, key: str) -> None:
        """Removes a key, if it exists."""
        self._check_writable()
        await asyncio.to_thread(self.database.delete, key)

    async def delete_dir(self, prefix: str) -> None:
        """Removes all keys below a prefix."""
        self._check_writable()
        prefix = _folder(prefix)
        await asyncio.to_thread(self.database.delete_prefix, prefix) if prefix else await self.clear()

    async def clear(self) -> None:
        """Removes all keys."""
        self._check_writable()
        await asyncio.to_thread(self.database.clear)

    # Keys.

    def list(self) -> AsyncIterator[str]:
        """Returns all keys: a snapshot, in their order if the database keeps it."""
        return self.list_prefix("")

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Returns the keys that begin with a prefix."""
        async for key in _on_thread(_with_prefix(self.database, prefix)):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Returns the names below a folder: those of its keys, and of its folders once. A folder costs one read."""
        names = set()
        async for name in _on_thread(_children(self.database, _folder(prefix))):
            if name not in names:
                names.add(name)
                yield name

    # Without an event loop.

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        """Like `get`."""
        value = self.database.get(key)
        return None if value is None else _buffer(value, prototype, byte_range)

    def set_sync(self, key: str, value: Any) -> None:
        """Like `set`."""
        self._check_writable()
        self.database.put(key, _bytes(value))

    def delete_sync(self, key: str) -> None:
        """Like `delete`."""
        self._check_writable()
        self.database.delete(key)


def _restored(kind: type[SiltstoneStore], path: str, read_only: bool, settings: dict[str, Any]) -> SiltstoneStore:
    return kind(path, read_only=read_only, **settings)


def _folder(prefix: str) -> str:
    prefix = prefix.rstrip("/")
    return prefix + "/" if prefix else ""


def _bytes(value: Any) -> bytes:
    if not isinstance(value, Buffer):
        raise TypeError(f"SiltstoneStore: the value is of type {type(value).__name__}; pass a Buffer of zarr")
    content: bytes = value.to_bytes()
    return content


def _buffer(value: bytes, prototype: Any, byte_range: Any) -> Any:
    """Returns a value, or a range of it, as a buffer of zarr."""
    length = len(value)
    if byte_range is None:
        part = value
    elif isinstance(byte_range, RangeByteRequest):
        part = value[byte_range.start : byte_range.end]
    elif isinstance(byte_range, OffsetByteRequest):
        part = value[byte_range.offset :]
    elif isinstance(byte_range, SuffixByteRequest):
        part = value[max(length - byte_range.suffix, 0) :]
    else:
        raise ValueError(f"Unexpected byte_range, got {byte_range}; pass a request of zarr.abc.store")
    return (prototype or default_buffer_prototype()).buffer.from_bytes(part)


async def _on_thread(keys: Iterator[str]) -> AsyncIterator[str]:
    """Returns what an iterator returns, whose reads are on a thread."""
    while part := await asyncio.to_thread(lambda: list(islice(keys, KEYS_PER_CALL))):
        for key in part:
            yield key


def _with_prefix(database: Any, prefix: str) -> Iterator[str]:
    try:
        keys: Iterator[str] = database.range(prefix=prefix or None, keys_only=True)
    except UnsupportedError:
        return (key for key in database if key.startswith(prefix))
    return keys


def _children(database: Any, folder: str) -> Iterator[str]:
    """Returns the first parts of the keys below a folder; those of some keys more than once."""
    start, stop = folder or None, folder[:-1] + "0" if folder else None
    try:
        keys = database.range(start, stop, keys_only=True)
    except UnsupportedError:
        yield from (key[len(folder) :].partition("/")[0] for key in _with_prefix(database, folder))
        return
    while keys is not None:
        found, keys = keys, None
        for key in found:
            name, slash, _ = key[len(folder) :].partition("/")
            yield name
            if slash:
                keys = database.range(f"{folder}{name}0", stop, keys_only=True)
                break
