"""The interface of the package diskcache over a database: `Cache` and `FanoutCache`. Needs no other package.

::

    from siltstone.diskcache import Cache           # from diskcache import Cache

A record of the database is, pickled::

    key    the key, without references to equal parts of it, so that equal keys have equal bytes;
           of one with more than 65,535 bytes, a zero and a hash
    value  (value, time of expiry in seconds since 1970 or None, tag), and the key if it is long

`docs/python/diskcache.md` of the repository says what differs, and has a recipe that copies an existing cache.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import pickle
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from ._errors import SettingError, UnsupportedError
from ._shared import Handle

#: A value, its time of expiry, its tag, and the bytes of its key if they are long.
Record = tuple[Any, ...]

#: The longest key of a database.
KEY_BYTES_MAX = 65_535

#: The records that one step of `evict` or `expire` reads.
STEP_RECORDS = 1000

#: The end of the error of a second process.
REMEDY = (
    "a cache is for one process and its threads; for several processes, run a server, `siltstone serve data`, and use "
    "a client of Redis"
)

_LIMIT = 'the bytes on flash are limited by engine="flashstore", cache=True, flash_bytes=N'
_TAGS = "there is no index of tags: evict(tag) reads all records"
_QUEUE = "there are no queues, which change the same few keys all the time; keep them in diskcache.Deque"
_ORDER = "records have the order of their hashes; sort the keys"

#: The settings of diskcache, and what to use. Names that end with an underscore are prefixes.
SETTINGS_NOT_HERE = {
    "size_limit": _LIMIT,
    "cull_limit": _LIMIT,
    "eviction_policy": _LIMIT,
    "shards": "one database serves all threads; leave it out",
    "timeout": "there is no lock to wait for; leave it out",
    "disk_": "there are no files of values; leave it out",
    "sqlite_": "there is no SQLite; leave it out",
    "statistics": "use stats(enable=True)",
    "tag_index": _TAGS,
}

#: The methods of diskcache that are not here, and why, or what to use.
METHODS_NOT_HERE = {
    "cull": _LIMIT,
    "reset": "settings are stated when the cache is opened",
    "create_tag_index": _TAGS,
    "drop_tag_index": _TAGS,
    "push": _QUEUE,
    "pull": _QUEUE,
    "peek": _QUEUE,
    "deque": _QUEUE,
    "index": _ORDER,
    "iterkeys": _ORDER,
    "peekitem": _ORDER,
    "cache": "open a cache in a directory below",
}

_ABSENT: Any = object()


class Cache:
    """A cache with the methods of diskcache's `Cache`, in the directory `directory`, or a new temporary one.

    `settings` are those of `siltstone.open`. All caches of a process for one directory share its database, which the
    first use opens, and the last `close` closes. Writes wait for each other and for `transact`; reads wait for
    nothing. Errors of diskcache's database (`Timeout`) do not exist, so the arguments `retry` have no effect.

    Keys and values are pickled, and **unpickling runs code that they name**: a new directory has the mode 0700. A
    pickled value has at most 256 MiB.

    >>> from siltstone.diskcache import Cache
    >>> with Cache() as cache:
    ...     cache.set("page", b"<html>", expire=60, tag="pages")
    ...     cache["page"], cache.incr("visits"), cache.evict("pages"), len(cache)
    True
    (b'<html>', 1, 1, 1)
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, **settings: Any) -> None:
        for name, value in settings.items():
            reason = SETTINGS_NOT_HERE.get(name) or SETTINGS_NOT_HERE.get("".join(name.partition("_")[:2]))
            if reason is not None:
                raise SettingError(f"{name}: a setting of diskcache; {reason}")
            # A path is FlashStore's disk.
            if name in ("keys", "values") or (name == "disk" and not isinstance(value, (str, os.PathLike))):
                raise SettingError(f"{name}: a cache pickles its keys and values; leave it out")
        if directory is None:
            directory = tempfile.mkdtemp(prefix="siltstone-")
        self._directory = os.path.expandvars(os.path.expanduser(os.fsdecode(directory)))
        self._settings = settings
        stated = {"keys": "bytes", "values": "pickle", "mode": 0o700, **settings}
        self._handle = Handle(self._directory, stated, REMEDY)
        #: The writes of `transact`, and its thread.
        self._pending: dict[bytes, Record | None] = {}
        self._writer: int | None = None
        self._counts: list[int] | None = None
        self._counting = threading.Lock()

    @property
    def directory(self) -> str:
        """The directory."""
        return self._directory

    @property
    def database(self) -> Any:
        """The open database, for `stats`, `sync`, `checkpoint` and `verify`."""
        return self._handle.database

    def close(self) -> None:
        """Gives the database back. The next use opens it again."""
        self._handle.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _restored, (type(self), self._directory, self._settings)

    def __getattr__(self, name: str) -> Any:
        reason = METHODS_NOT_HERE.get(name) or SETTINGS_NOT_HERE.get(name)
        raise AttributeError(f"{type(self).__name__} has no `{name}`" + (f": {reason}" if reason else ""))

    # Records.

    def _read(self, key: bytes) -> Record | None:
        name = _name_of(key)
        if self._is_writing and name in self._pending:
            record = self._pending[name]
        else:
            record = self.database.get(name)
        return None if record is None or _has_expired(record, time.time()) else record

    def _write(self, key: bytes, record: Record | None) -> None:
        """Puts a record, or removes it. The caller has the lock."""
        name = _name_of(key)
        if record is not None and name is not key:
            record = *record[:3], key
        if self._is_writing:
            self._pending[name] = record
        else:
            _put(self.database, name, record)

    @property
    def _is_writing(self) -> bool:
        """Whether this thread is in `transact`."""
        return self._writer == threading.get_ident()

    def _check_outside(self, call: str) -> None:
        if self._is_writing:
            raise UnsupportedError(f"{call}: it reads all records, which do not have the writes of transact() yet")

    @contextmanager
    def transact(self, retry: bool = False) -> Iterator[None]:
        """Makes the writes of a `with` one atomic step: all of them or, after an exception, none.

        Writes of other threads wait. What the block reads includes its own writes; others see them at its end. They
        are in memory until then. Calls that read all records, such as `len` and `evict`, are an error in it.
        """
        with self._handle.opened.lock:
            if self._is_writing:
                yield  # a part of the transaction around it
                return
            self._pending, self._writer = {}, threading.get_ident()
            try:
                yield
                with self.database.write_batch() as batch:
                    for name, record in self._pending.items():
                        _put(batch, name, record)
            finally:
                self._pending, self._writer = {}, None

    def set(
        self,
        key: Any,
        value: Any,
        expire: float | None = None,
        read: bool = False,
        tag: Any = None,
        retry: bool = False,
    ) -> bool:
        """Sets a value, which expires after `expire` seconds. With `read`, it is what the file `value` has. True."""
        record = _record(value, expire, read, tag)
        with self._handle.opened.lock:
            self._write(_bytes_of(key), record)
        return True

    def add(
        self,
        key: Any,
        value: Any,
        expire: float | None = None,
        read: bool = False,
        tag: Any = None,
        retry: bool = False,
    ) -> bool:
        """Sets the value of a key that is absent, and returns whether it was. Atomic."""
        name = _bytes_of(key)
        with self._handle.opened.lock:
            if self._read(name) is not None:
                return False
            self._write(name, _record(value, expire, read, tag))
        return True

    def get(
        self,
        key: Any,
        default: Any = None,
        read: bool = False,
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Returns a value, or `default`; with `expire_time` and `tag`, a tuple of what was asked for.

        With `read`, a value of bytes is returned as a file in memory.
        """
        record = self._read(_bytes_of(key))
        if self._counts is not None:
            with self._counting:
                self._counts[record is None] += 1
        if record is None:
            record = default, None, None
        elif read and isinstance(record[0], bytes):
            record = io.BytesIO(record[0]), *record[1:]
        return _parts(record, expire_time, tag)

    def read(self, key: Any, retry: bool = False) -> Any:
        """Returns a value of bytes as a file in memory."""
        value = self.get(key, _ABSENT, read=True)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def pop(
        self, key: Any, default: Any = None, expire_time: bool = False, tag: bool = False, retry: bool = False
    ) -> Any:
        """Removes a key and returns its value as `get` does. Atomic."""
        name = _bytes_of(key)
        with self._handle.opened.lock:
            record = self._read(name)
            if record is not None:
                self._write(name, None)
        return _parts(record or (default, None, None), expire_time, tag)

    def delete(self, key: Any, retry: bool = False) -> bool:
        """Removes a key, and returns whether it existed."""
        name = _bytes_of(key)
        with self._handle.opened.lock:
            found = self._read(name) is not None
            if found:
                self._write(name, None)
        return found

    def touch(self, key: Any, expire: float | None = None, retry: bool = False) -> bool:
        """Sets the time of expiry, and returns whether the key exists. Writes the record again."""
        name = _bytes_of(key)
        with self._handle.opened.lock:
            record = self._read(name)
            if record is not None:
                self._write(name, _record(record[0], expire, False, record[2]))
        return record is not None

    def incr(self, key: Any, delta: Any = 1, default: Any = 0, retry: bool = False) -> Any:
        """Adds to a number, or to `default` if the key is absent, and returns the sum. Atomic.

        If `default` is None, an absent key is a KeyError. The time of expiry and the tag stay.
        """
        name = _bytes_of(key)
        with self._handle.opened.lock:
            record = self._read(name)
            if record is None:
                if default is None:
                    raise KeyError(key)
                record = default, None, None
            value = record[0] + delta
            self._write(name, (value, *record[1:3]))
        return value

    def decr(self, key: Any, delta: Any = 1, default: Any = 0, retry: bool = False) -> Any:
        """Subtracts from a number: see `incr`."""
        return self.incr(key, -delta, default)

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: Any) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key: Any) -> bool:
        return self._read(_bytes_of(key)) is not None

    # All records.

    def __iter__(self) -> Iterator[Any]:
        """Returns the keys of this moment, in the order of their hashes."""
        self._check_outside("iter")
        database = self.database
        keys = (_key_of(name, database) for name in iter(database))
        return (pickle.loads(key) for key in keys if key is not None)

    __reversed__ = None

    def __len__(self) -> int:
        """The number of keys that have not expired. Reads all records."""
        self._check_outside("len")
        return len(self.database)

    def clear(self, retry: bool = False) -> int:
        """Removes all records and returns their number. Reads all records."""
        self._check_outside("clear")
        with self._handle.opened.lock:
            count = len(self.database)
            self.database.clear()
        return count

    def evict(self, tag: Any, retry: bool = False) -> int:
        """Removes the records with a tag and returns their number. Reads all records."""
        return self._remove("evict", lambda record: tag is not None and record[2] == tag)

    def expire(self, now: float | None = None, retry: bool = False) -> int:
        """Removes the records that expire before `now`, and returns their number. Reads all records.

        Those that have expired are absent by themselves, and merges free their space: without `now`, nothing is to do.
        """
        at = now or 0.0
        return 0 if at <= time.time() else self._remove("expire", lambda record: _has_expired(record, at))

    def _remove(self, call: str, is_chosen: Callable[[Record], bool]) -> int:
        self._check_outside(call)
        database = self.database
        chosen = (name for name, record in database.items() if is_chosen(record))
        count = 0
        while names := list(islice(chosen, STEP_RECORDS)):
            with self._handle.opened.lock:
                # Others may have written meanwhile.
                records = zip(names, database.get_many(names))
                names = [name for name, record in records if record is not None and is_chosen(record)]
                database.delete_many(names)
            count += len(names)
        return count

    def stats(self, enable: bool = True, reset: bool = False) -> tuple[int, int]:
        """Returns the hits and misses of this object since they are counted, and turns counting on or off."""
        with self._counting:
            hits, misses = self._counts or (0, 0)
            if not enable:
                self._counts = None
            elif reset or self._counts is None:
                self._counts = [0, 0]
        return hits, misses

    def volume(self) -> int:
        """Returns the bytes of the database on the drive."""
        size: int = self.database.stats()["disk_bytes"]
        return size

    def check(self, fix: bool = False, retry: bool = False) -> list[str]:
        """Reads all files, and returns what is damaged. `fix` is an error: `siltstone repair` repairs a database."""
        if fix:
            raise UnsupportedError("check: fix=True; close the cache and use the command `siltstone repair`")
        return [str(damage) for damage in self.database.verify()["damage"]]

    def memoize(
        self,
        name: str | None = None,
        typed: bool = False,
        expire: float | None = None,
        tag: Any = None,
        ignore: Any = (),
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Returns a decorator that keeps the results of a function by its arguments.

        `typed` distinguishes equal arguments of different types, and `ignore` has the positions and names of arguments
        that are not part of the key. The keys are those of diskcache, so results of a copied cache are found.
        `Database.memoize` knows more types of arguments, and computes once for threads that miss at the same time.
        """
        if callable(name):
            raise TypeError("memoize: name cannot be callable; call it, as @cache.memoize()")

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            base = f"{function.__module__}.{function.__qualname__}" if name is None else name

            def key_of(*args: Any, **named: Any) -> tuple[Any, ...]:
                """Returns the key of a call."""
                args = tuple(value for at, value in enumerate(args) if at not in ignore)
                items = sorted((name, value) for name, value in named.items() if name not in ignore)
                key = (base, *args, None, *(part for item in items for part in item))
                return (*key, *map(type, args), *(type(value) for _, value in items)) if typed else key

            @functools.wraps(function)
            def memoized(*args: Any, **named: Any) -> Any:
                key = key_of(*args, **named)
                result = self.get(key, _ABSENT)
                if result is _ABSENT:
                    result = function(*args, **named)
                    if expire is None or expire > 0:
                        self.set(key, result, expire, tag=tag)
                return result

            memoized.__cache_key__ = key_of  # type: ignore[attr-defined]
            return memoized

        return decorate


#: diskcache's `FanoutCache` has several databases, so that its writers wait less. Here one database serves all threads.
FanoutCache = Cache


def _restored(kind: type[Cache], directory: str, settings: dict[str, Any]) -> Cache:
    return kind(directory, **settings)


def _bytes_of(key: Any) -> bytes:
    """Returns the bytes of a key. As in diskcache, 1 and 1.0 are one key, and True is another one."""
    if type(key) is float and key.is_integer():
        key = int(key)
    content = io.BytesIO()
    pickler = pickle.Pickler(content, 4)
    # Two parts of a key that are equal have the same bytes as one part that occurs twice.
    pickler.fast = True
    pickler.dump(key)
    return content.getvalue()


def _name_of(key: bytes) -> bytes:
    """Returns the key of the database for the bytes of a key."""
    if len(key) <= KEY_BYTES_MAX:
        return key
    # A pickle does not begin with a zero.
    return b"\0" + hashlib.blake2b(key, digest_size=32).digest()


def _key_of(name: bytes, database: Any) -> bytes | None:
    """Returns the bytes of the key of a record; None if it is a long one that has been removed."""
    if not name.startswith(b"\0"):
        return name
    record: Record | None = database.get(name)
    return None if record is None else record[3]


def _record(value: Any, expire: float | None, read: bool, tag: Any) -> Record:
    return value.read() if read else value, None if expire is None else time.time() + expire, tag


def _has_expired(record: Record, now: float) -> bool:
    return record[1] is not None and record[1] <= now


def _put(target: Any, key: bytes, record: Record | None) -> None:
    """Puts a record to a database or a batch, or removes it if it has expired."""
    seconds = None if record is None or record[1] is None else record[1] - time.time()
    if record is None or (seconds is not None and seconds <= 0):
        target.delete(key)
    else:
        target.put(key, record, expire=seconds)


def _parts(record: Record, expire_time: bool, tag: bool) -> Any:
    value, at, own_tag = record[:3]
    if not expire_time and not tag:
        return value
    return (value, *([at] if expire_time else []), *([own_tag] if tag else []))
