"""A cache of Django on flash. Needs Django.

::

    CACHES = {
        "default": {
            "BACKEND": "siltstone.django.SiltstoneCache",
            "LOCATION": "/var/lib/site/cache",
            "OPTIONS": {"memory_budget": "64MiB"},
        },
    }

All threads of a process share the database. Values are pickled, so only the user of the site may be able to write to the
directory, which is created for its owner alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._errors import ForkedError
from ._shared import Handle, Opened

try:
    from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
    from django.core.exceptions import ImproperlyConfigured
except ImportError as error:
    raise ImportError("siltstone.django needs Django; pip install 'siltstone[django]'") from error

#: The end of the error of a second process.
REMEDY = (
    "a cache of Django on Siltstone is for one process: run one worker with threads, or serve the directory with "
    "`siltstone serve data` and use django.core.cache.backends.redis.RedisCache"
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

    def _seconds(self, timeout: Any) -> Any:
        """Returns the seconds until a record expires; None for never. Not above 0: it has expired."""
        return self.default_timeout if timeout == DEFAULT_TIMEOUT else timeout

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Sets the value of a key that is absent, and returns whether it was. Atomic."""
        key, expire = self.make_and_validate_key(key, version=version), self._seconds(timeout)
        if expire is not None and expire <= 0:
            return key not in self.database
        opened = self._opened
        with opened.lock_of(key):
            return opened.database.add(key, value, expire=expire)

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        """Returns the value of a key, or `default`."""
        return self.database.get(self.make_and_validate_key(key, version=version), default)

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        """Sets the value of a key. With a timeout of 0 or less, removes the key."""
        key, expire = self.make_and_validate_key(key, version=version), self._seconds(timeout)
        opened = self._opened
        with opened.lock_of(key):
            if expire is not None and expire <= 0:
                opened.database.delete(key)
            else:
                opened.database.put(key, value, expire=expire)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Sets the timeout of a key, and returns whether the key exists. Rewrites the record."""
        key, expire = self.make_and_validate_key(key, version=version), self._seconds(timeout)
        if expire is not None and expire <= 0:
            return self._delete(key)
        opened = self._opened
        with opened.lock_of(key):
            return opened.database.touch(key, expire)

    def delete(self, key: Any, version: int | None = None) -> bool:
        """Removes a key, and returns whether it existed."""
        return self._delete(self.make_and_validate_key(key, version=version))

    def _delete(self, key: str) -> bool:
        try:
            del self.database[key]
        except KeyError:
            return False
        return True

    def has_key(self, key: Any, version: int | None = None) -> bool:
        """Returns whether a key exists, without its value."""
        return self.make_and_validate_key(key, version=version) in self.database

    def incr(self, key: Any, delta: Any = 1, version: int | None = None) -> Any:
        """Adds to the value of a key, which keeps its timeout. A key that does not exist is a ValueError."""
        made = self.make_and_validate_key(key, version=version)
        opened = self._opened
        database = opened.database
        # A compare_and_swap removes the timeout: no call may see or set that of the key before `touch` has.
        with opened.lock_of(made):
            while True:
                value = database.get(made, _ABSENT)
                if value is _ABSENT:
                    raise ValueError(f"Key '{key}' not found")
                seconds = database.ttl(made)
                if database.compare_and_swap(made, value, value + delta):
                    if seconds is not None and seconds != float("inf"):
                        database.touch(made, seconds)
                    return value + delta

    def get_many(self, keys: Iterable[Any], version: int | None = None) -> dict[Any, Any]:
        """Returns the values of the keys that exist, with overlapping reads."""
        made = {key: self.make_and_validate_key(key, version=version) for key in keys}
        values = self.database.get_many(list(made.values()), _ABSENT)
        return {key: value for key, value in zip(made, values) if value is not _ABSENT}

    def set_many(
        self, data: dict[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[Any]:
        """Sets the values of many keys, in atomic batches of 10,000. Returns an empty list: no key fails."""
        records = {self.make_and_validate_key(key, version=version): value for key, value in data.items()}
        expire = self._seconds(timeout)
        if expire is not None and expire <= 0:
            self.database.delete_many(list(records))
        else:
            self.database.put_many(records, expire=expire)
        return []

    def delete_many(self, keys: Iterable[Any], version: int | None = None) -> None:
        """Removes many keys."""
        self.database.delete_many([self.make_and_validate_key(key, version=version) for key in keys])

    def clear(self) -> None:
        """Removes all records of the directory, in batches."""
        self.database.clear()
