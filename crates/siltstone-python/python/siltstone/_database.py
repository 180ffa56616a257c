"""The class `Database`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, MutableMapping

from . import _arrays, _codecs, _siltstone
from ._errors import Error, ForkedError, MissingKeyError, SettingError
from ._store import Store

# As in `typing`, which takes longer to import than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Callable, TypeVar, overload

    import numpy
    from numpy.typing import NDArray

    from ._asyncio import Lookups
    from ._codecs import CodecName
    from ._store import Progress

    K = TypeVar("K")
    V = TypeVar("V")
    D = TypeVar("D")
else:
    K = V = D = object

    def overload(function):
        """Replaces that of `typing`."""
        return function


_ABSENT: Any = object()


class Database(Store[K, V], _siltstone.Database[K, V], MutableMapping[K, V]):
    """A key-value store in a directory: see `siltstone.open`.

    All methods can be called from any thread. Calls that may read flash, write or wait release the GIL.

    >>> import siltstone, tempfile
    >>> path = tempfile.mkdtemp() + "/colours"
    >>> with siltstone.open(path) as db:
    ...     db[b"rose"] = b"red"
    ...     db.put(b"violet", b"blue", expire=3600)
    ...     sorted(db.items())
    [(b'rose', b'red'), (b'violet', b'blue')]
    """

    value_codec: str
    _lookups: Lookups | None = None
    _arguments: tuple[Any, ...]
    _engine: str

    def __new__(
        cls,
        path: str | os.PathLike[str],
        flag: str = "c",
        *,
        engine: str | None = None,
        keys: CodecName | None = None,
        values: CodecName | None = None,
        mode: int = 0o666,
        progress: Progress = None,
        **settings: Any,
    ) -> Database[K, V]:
        """Opens the database: see `siltstone.open`."""
        path = os.fsdecode(path)
        if flag == "n":
            _siltstone.remove_files(path)
        key_codec, value_codec, is_kept = _codecs.choose(path, keys, values)
        arguments = (os.path.abspath(path), engine, key_codec, value_codec, dict(settings))
        functions = _codecs.value_functions(value_codec)
        if "fixed" not in settings and key_codec in ("int", "uint"):
            array = _codecs.array_shape(value_codec)
            if array is not None:
                item, shape = array
                count = 1
                for length in shape:
                    count *= length
                settings["fixed"] = (8, count * item.itemsize)
        made = _make_directories(path, mode, settings.get("disk")) if flag in ("c", "n") and mode != 0o666 else []
        new = super().__new__
        try:
            if progress is None:
                own = new(cls, path, flag, engine, key_codec, functions, settings, None)
            else:
                from ._progress import reporting

                with reporting(progress, "open", "B") as report:
                    own = new(cls, path, flag, engine, key_codec, functions, settings, report)
        except BaseException as error:
            for directory in made:
                if not os.listdir(directory):
                    os.rmdir(directory)
            _name_argument(error, settings)
            raise
        own.value_codec, own._arguments, own._engine = value_codec, arguments, own.stats()["engine"]
        if not is_kept and flag != "r" and own._engine != "mica":
            _codecs.remember(path, key_codec, value_codec)
        return own

    # What MutableMapping would do with a read per record, or not atomically.

    def set(self, key: K, value: V, expire: float | timedelta | None = None) -> None:
        """Sets the value of a key, which expires after `expire` seconds."""
        self.put(key, value, expire=expire)

    def pop(self, key: K, default: Any = _ABSENT) -> Any:
        """Removes a key and returns its value, or `default`. Atomic."""
        value = self._take(key, default)
        if value is _ABSENT:
            raise MissingKeyError(key)
        return value

    def popitem(self) -> tuple[K, V]:
        """Removes the first record of the engine's order and returns its key and value. Atomic."""
        for key in self:
            value = self._take(key, _ABSENT)
            if value is not _ABSENT:
                return key, value
        raise MissingKeyError("popitem: the database is empty")

    def setdefault(self, key: K, default: Any = None) -> Any:
        """Returns the value of a key; puts `default` first if the key is absent. The put is atomic."""
        while True:
            value = self.get(key, _ABSENT)
            if value is not _ABSENT:
                return value
            if self.add(key, default):
                return default

    def clear(self) -> None:
        """Removes all records, in batches. Those that others put meanwhile may remain."""
        self._clear()

    def update(self, records: Any = (), /, **named: Any) -> None:
        """Puts many records, in batches."""
        if hasattr(records, "keys") and not hasattr(records, "items"):
            records = zip(records.keys(), map(records.__getitem__, records.keys()))
        self._put_many(records)
        if named:
            self._put_many(named)  # type: ignore[arg-type]

    # Many keys.

    @overload
    def get_many(  # type: ignore[overload-overlap]
        self, keys: NDArray[Any], *, out: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], NDArray[numpy.bool_]]: ...
    @overload
    def get_many(self, keys: Iterable[K]) -> list[V | None]: ...
    @overload
    def get_many(self, keys: Iterable[K], default: D) -> list[V | D]: ...
    def get_many(self, keys: Any, default: Any = None, *, out: Any = None) -> Any:
        """Returns the values of many keys with overlapping reads.

        A list of keys returns a list of values, with `default` for absent keys. An array of NumPy returns the pair
        (values, found): a row per key, zero or as it was in `out` if the key is absent.

        >>> import siltstone, tempfile
        >>> with siltstone.open(tempfile.mkdtemp() + "/db", keys="str") as db:
        ...     db.put_many({"a": b"1", "b": b"2"})
        ...     db.get_many(["a", "x", "b"])
        2
        [b'1', None, b'2']
        """
        if out is None and not _arrays.is_array(keys):
            return self._get_many(keys, default)
        return _arrays.get_many(self, keys, out)

    @overload
    def contains_many(  # type: ignore[overload-overlap]
        self, keys: NDArray[Any]
    ) -> NDArray[numpy.bool_]: ...
    @overload
    def contains_many(self, keys: Iterable[K]) -> list[bool]: ...
    def contains_many(self, keys: Any) -> Any:
        """Returns for each of many keys whether it exists: a list, or an array for an array."""
        return _arrays.contains_many(self, keys) if _arrays.is_array(keys) else self._contains_many(keys)

    @overload
    def put_many(
        self,
        records: NDArray[Any],
        values: NDArray[Any],
        *,
        expire: float | timedelta | None = None,
        durability: str | None = None,
        progress: Progress = None,
    ) -> int: ...
    @overload
    def put_many(
        self,
        records: Mapping[K, V] | Iterable[tuple[K, V]],
        *,
        expire: float | timedelta | None = None,
        durability: str | None = None,
        progress: Progress = None,
    ) -> int: ...
    def put_many(
        self,
        records: Any,
        values: Any = None,
        *,
        expire: float | timedelta | None = None,
        durability: str | None = None,
        progress: Progress = None,
    ) -> int:
        """Puts many records and returns their number.

        `records` are a mapping or pairs; with `values`, arrays of keys and values. They are written in atomic batches
        of 10,000 records (16,384 of arrays); `write_batch` makes one batch of all. `progress` is called after each of
        them with the records that were written and their number, which is None for an iterator; True shows a bar of
        ``tqdm``. What it raises, and Ctrl-C, end the call between two batches: those before stay.
        """
        if progress is not None:
            from ._progress import reporting

            with reporting(progress, "put_many", " records") as report:
                return self._put_all(records, values, expire, durability, report)
        return self._put_all(records, values, expire, durability, None)

    def _put_all(self, records: Any, values: Any, expire: Any, durability: str | None, report: Any) -> int:
        if values is None:
            return self._put_many(records, expire=expire, durability=durability, progress=report)
        return _arrays.put_many(self, records, values, expire, durability, report)

    @overload
    def insert_many_if_absent(
        self,
        records: NDArray[Any],
        values: NDArray[Any],
        *,
        expire: float | timedelta | None = None,
        durability: str | None = None,
    ) -> NDArray[numpy.bool_]: ...
    @overload
    def insert_many_if_absent(
        self,
        records: Mapping[K, V] | Iterable[tuple[K, V]],
        *,
        expire: float | timedelta | None = None,
        durability: str | None = None,
    ) -> list[bool]: ...
    def insert_many_if_absent(
        self,
        records: Any,
        values: Any = None,
        *,
        expire: float | timedelta | None = None,
        durability: str | None = None,
    ) -> Any:
        """Puts the records whose keys are absent, in one atomic step, and returns for each whether it was put.

        Arguments as those of `put_many`.

        >>> import siltstone, tempfile
        >>> with siltstone.open(tempfile.mkdtemp() + "/seen", keys="str") as seen:
        ...     seen.insert_many_if_absent([("a", b""), ("b", b""), ("a", b"")])
        [True, True, False]
        """
        if values is None:
            return self._insert_many_if_absent(records, expire=expire, durability=durability)
        return _arrays.insert_many_if_absent(self, records, values, expire, durability)

    # Habits of caches.

    def decr(self, key: K, delta: int = 1, default: int | None = 0) -> int:
        """Subtracts from the number of a key: see `incr`."""
        return self.incr(key, -delta, default)

    def memoize(
        self, *, name: str | None = None, expire: float | timedelta | None = None, key: Callable[..., Any] | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Returns a decorator that keeps the results of a function by the values of its arguments.

        `name` is that of the function in keys, `expire` is in seconds, and `key` returns for the arguments of a call
        the value that represents them. An argument of a type that is not known, such as an object or a DataFrame, is a
        `TypeError` without it.
        `async def` functions are kept as well. Keys begin with the name and a colon.

        >>> import siltstone, tempfile
        >>> with siltstone.open(tempfile.mkdtemp() + "/db", keys="str", values="json") as db:
        ...     @db.memoize(expire=60)
        ...     def square(number):
        ...         print("computing")
        ...         return number * number
        ...     square(3), square(3)
        computing
        (9, 9)
        """
        from ._memoize import memoize

        return memoize(self, name, expire, key)

    # asyncio

    async def aget(self, key: K, default: Any = None) -> Any:
        """Returns the value of a key, or `default`. Concurrent calls of an event loop become one `get_many`."""
        from ._asyncio import lookups_of

        return await lookups_of(self).get(key, default)

    async def aget_many(self, keys: Any, default: Any = None, *, out: Any = None) -> Any:
        """Like `get_many`, on a thread of the event loop's pool."""
        import asyncio

        look_up: Callable[..., Any] = self.get_many
        return await asyncio.to_thread(look_up, keys, default, out=out)

    async def aput(
        self, key: K, value: V, *, expire: float | timedelta | None = None, durability: str | None = None
    ) -> None:
        """Like `put`, on a thread of the event loop's pool."""
        import asyncio

        await asyncio.to_thread(self.put, key, value, expire=expire, durability=durability)

    # The whole database.

    def checkpoint(self, target: str | os.PathLike[str]) -> None:
        """Writes a consistent copy to an empty or new directory, by hard links where possible.

        The copy is an independent database, which other processes may open with the flag ``r``.
        """
        self._checkpoint(target)

    def _fixed(self) -> tuple[int, int] | None:
        fixed: tuple[int, int] | None = self.stats()["fixed"]
        return fixed

    def __enter__(self) -> Database[K, V]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"engine": self._engine, "is": "read only" if self.read_only else "open"}
        try:
            count, stats = self.approximate_len(), self.stats()
        except Error as error:
            # `repr` is for people who look for the reason.
            why = "of another process" if isinstance(error, ForkedError) else type(error).__name__
            return {**state, "is": "closed" if self.closed else why}
        about = "about " if count else ""
        return {**state, **stats, "engine": self._engine, "records": f"{about}{count:,}"}

    def __reduce__(self) -> Any:
        if not self.read_only:
            raise TypeError(
                "a database that is open for writing cannot be pickled: one process has it; "
                'open it with flag="r" in each process, or send a checkpoint or a Dictionary'
            )
        return _reopened, (type(self), *self._arguments)


#: The arguments of `open` that are not settings of the library.
_ARGUMENTS = ("flag", "mode", "engine", "keys", "values", "progress")


def _name_argument(error: BaseException, settings: dict[str, Any]) -> None:
    """Raises an error that names the argument of `open` that was meant, if a setting that there is not resembles one."""
    for name in settings:
        if isinstance(error, SettingError) and f"no setting `{name}`" in str(error):
            from difflib import get_close_matches

            for meant in get_close_matches(name, _ARGUMENTS, 1, 0.75):
                raise SettingError(f"open: there is no argument `{name}`; did you mean `{meant}`?") from None


def _reopened(
    kind: type[Database[Any, Any]], path: str, engine: str | None, keys: str, values: str, settings: dict[str, Any]
) -> Database[Any, Any]:
    return kind(path, "r", engine=engine, keys=keys, values=values, **settings)


def _make_directories(path: str, mode: int, disk: str | os.PathLike[str] | None) -> list[str]:
    """Creates the directory of a database, and that of its disk if it is elsewhere. Returns those that did not exist."""
    own = os.path.abspath(path)
    paths = [own] if disk is None else [own, os.path.normpath(os.path.join(own, os.fsdecode(disk)))]
    made = []
    for directory in paths:
        if not os.path.exists(directory) and (directory == own or not directory.startswith(own + os.sep)):
            os.makedirs(os.path.dirname(directory), exist_ok=True)
            # Who may read also may enter.
            os.mkdir(directory, mode | (mode & 0o444) >> 2)
            made.append(directory)
    return made


def open(
    path: str | os.PathLike[str],
    flag: str = "c",
    mode: int = 0o666,
    *,
    engine: str | None = None,
    keys: CodecName | None = None,
    values: CodecName | None = None,
    progress: Progress = None,
    **settings: Any,
) -> Database[Any, Any]:
    """Opens the database in the directory `path`.

    `flag` is that of `dbm`: ``r`` reads only, ``w`` opens an existing database, ``c`` creates one if there is none,
    ``n`` always creates an empty one. `mode` is that of a directory that is created, less the umask; users that may
    read it may also enter it. Others cannot open the files in it.

    `engine` is ``silt`` (the default), ``flashkey``, ``flashstore``, ``bloomstore`` or ``mica``. `keys` is the codec
    of keys: ``bytes`` (the default), ``str``, ``int`` or ``uint``; `values` that of values: ``raw`` (the default),
    ``json``, a number or an array such as ``float32`` and ``float32[64]``, or ``pickle``. Types of Python and of NumPy
    are names as well: ``int``, ``numpy.float32``, ``numpy.dtype(("f4", 64))``. A database remembers its codecs.

    ``values="pickle"`` runs code that the values name. Use it only for databases that no other user can write to. A
    database does not choose it by itself: it has to be stated at each open.

    `progress` is called with the bytes done and the total while a long opening runs; True shows a bar of ``tqdm``.
    `settings` are those of all engines (fixed, hashed_keys, expiring, partitions, block_bytes, compression,
    memory_budget, durability, background_threads, open_files_max, verify_checksums, access, change_feed) and those of
    the engine, which ``siltstone engines`` lists. Sizes can be text, such as ``"64MiB"``.

    >>> import siltstone, tempfile
    >>> path = tempfile.mkdtemp() + "/users"
    >>> with siltstone.open(path, keys="int", values="json", memory_budget=64 << 20) as db:
    ...     db[17] = {"name": "Ada"}
    >>> with siltstone.open(path, "r") as db:
    ...     db[17]
    {'name': 'Ada'}
    """
    return Database(path, flag, engine=engine, keys=keys, values=values, mode=mode, progress=progress, **settings)
