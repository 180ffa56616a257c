"""A cache of Django on flash. Needs Django.

::

    CACHES = {
        "default": {
            "BACKEND": "siltstone.django.SiltstoneCache",
            "LOCATION": "/var/lib/site/cache",
            "OPTIONS": {"memory_budget": "64MiB"},
        },
    }

All threads of a process share the database. Values are pickled, so only the user of the site may be able to write to
the directory, which is created for its owner alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._errors import ForkedError
from ._shared import Handle, Opened

try:
    from asgiref.sync import sync_to_async
    from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
    from django.core.exceptions import ImproperlyConfigured
except ImportError as error:
    raise ImportError("siltstone.django needs Django; pip install 'siltstone[django]'") from error

#: The end of the error of a second process.
REMEDY = (
    "a cache of Django on Siltstone is for one process: run one worker with threads, or a server, `siltstone serve "
    "data`, with the backend django.core.cache.backends.redis.RedisCache"
)

#: Options of backends that count entries.
CULLING = ("MAX_ENTRIES", "CULL_FREQUENCY")

_ABSENT: Any = object()

#: Django makes a cache per thread, and drops it with the thread: this keeps the databases open.
_kept: set[Opened] = set()


def close_databases() -> None:
    """Closes the databases of all caches of this process. A cache that is used opens its database again.

    Call it before a fork if the parent has used a cache, and in tests before a directory is removed.
    """
    while _kept:
        try:
            _kept.pop().database.close()
        except ForkedError:  # of the parent
            continue


class SiltstoneCache(BaseCache):  # type: ignore[misc, unused-ignore]
    """A cache of Django in a directory.

    ``LOCATION`` is the directory, ``OPTIONS`` are the settings of `siltstone.open`: engine, memory_budget, durability,
    and those of the engine. Each call is one read or one write of the store, and `get_many`, `set_many` and
    `delete_many` overlap their reads. `incr` is atomic and keeps the timeout. `clear` removes all records of the
    directory, of all versions and prefixes.
    """

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        options = dict(params.get("OPTIONS") or {})
        for name in CULLING:
            if name in options:
                raise ImproperlyConfigured(
                    f"OPTIONS: {name}: SiltstoneCache does not count entries; limit the bytes on flash by "
                    '"engine": "flashstore", "cache": True, "flash_bytes": N, or leave it out'
                )
        for name in ("keys", "values"):
            if name in options:
                raise ImproperlyConfigured(f"OPTIONS: {name}: SiltstoneCache has its own codecs; leave it out")
        if not location:
            raise ImproperlyConfigured("LOCATION: SiltstoneCache needs a directory")
        settings = {"keys": "str", "values": "pickle", "mode": 0o700, **options}
        self._handle = Handle(location, settings, REMEDY)

    @property
    def _opened(self) -> Opened:
        opened = self._handle.opened
        _kept.add(opened)
        return opened

    @property
    def database(self) -> Any:
        """The open database, for `stats`, `sync`, `checkpoint` and `verify`."""
        return self._opened.database

    def _key(self, key: Any, version: int | None) -> str:
        made: Any = self.make_and_validate_key(key, version=version)
        return str(made)

    def _seconds(self, timeout: Any) -> Any:
        """Returns the seconds until a record expires; None for never. Not above 0: it has expired."""
        return self.default_timeout if timeout == DEFAULT_TIMEOUT else timeout

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Sets the value of a key that is absent, and returns whether it was. Atomic."""
        made, expire = self._key(key, version), self._seconds(timeout)
        if expire is not None and expire <= 0:
            return made not in self.database
        added: bool = self.database.add(made, value, expire=expire)
        return added

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        """Returns the value of a key, or `default`."""
        return self.database.get(self._key(key, version), default)

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        """Sets the value of a key. With a timeout of 0 or less, removes the key."""
        made, expire = self._key(key, version), self._seconds(timeout)
        if expire is not None and expire <= 0:
            self.database.delete(made)
        else:
            self.database.put(made, value, expire=expire)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Sets the timeout of a key, and returns whether the key exists. Rewrites the record."""
        made, expire = self._key(key, version), self._seconds(timeout)
        if expire is not None and expire <= 0:
            return self._delete(made)
        touched: bool = self.database.touch(made, expire)
        return touched

    def delete(self, key: Any, version: int | None = None) -> bool:
        """Removes a key, and returns whether it existed."""
        return self._delete(self._key(key, version))

    def _delete(self, key: str) -> bool:
        try:
            del self.database[key]
        except KeyError:
            return False
        return True

    def has_key(self, key: Any, version: int | None = None) -> bool:
        """Returns whether a key exists, without its value."""
        return self._key(key, version) in self.database

    def incr(self, key: Any, delta: Any = 1, version: int | None = None) -> Any:
        """Adds to the value of a key, which keeps its timeout. A key that does not exist is a ValueError."""
        try:
            return self.database._change(self._key(key, version), lambda value: value + delta)
        except KeyError:
            raise ValueError(f"Key '{key}' not found") from None

    def get_many(self, keys: Iterable[Any], version: int | None = None) -> dict[Any, Any]:
        """Returns the values of the keys that exist, with overlapping reads."""
        made = {key: self._key(key, version) for key in keys}
        values = self.database.get_many(list(made.values()), _ABSENT)
        return {key: value for key, value in zip(made, values) if value is not _ABSENT}

    def set_many(
        self, data: dict[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[Any]:
        """Sets the values of many keys, in atomic batches of 10,000. Returns an empty list: no key fails."""
        records = {self._key(key, version): value for key, value in data.items()}
        expire = self._seconds(timeout)
        if expire is not None and expire <= 0:
            self.database.delete_many(list(records))
        else:
            self.database.put_many(records, expire=expire)
        return []

    def delete_many(self, keys: Iterable[Any], version: int | None = None) -> None:
        """Removes many keys."""
        self.database.delete_many([self._key(key, version) for key in keys])

    # Those methods for asyncio that Django makes of several calls, which are not atomic together.

    async def aincr(self, key: Any, delta: Any = 1, version: int | None = None) -> Any:
        """Like `incr`."""
        return await sync_to_async(self.incr)(key, delta, version)

    async def ahas_key(self, key: Any, version: int | None = None) -> bool:
        """Like `has_key`."""
        found: bool = await sync_to_async(self.has_key)(key, version)
        return found

    async def aget_many(self, keys: Iterable[Any], version: int | None = None) -> dict[Any, Any]:
        """Like `get_many`."""
        values: dict[Any, Any] = await sync_to_async(self.get_many)(keys, version)
        return values

    async def aset_many(
        self, data: dict[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[Any]:
        """Like `set_many`."""
        failed: list[Any] = await sync_to_async(self.set_many)(data, timeout, version)
        return failed

    async def adelete_many(self, keys: Iterable[Any], version: int | None = None) -> None:
        """Like `delete_many`."""
        await sync_to_async(self.delete_many)(keys, version)

    def clear(self) -> None:
        """Removes all records of the directory, in batches."""
        self.database.clear()
