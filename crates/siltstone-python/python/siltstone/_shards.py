"""What stores of several shards share: which shard has a key, and calls to all shards at once."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from ._database import Database, open
from ._errors import SettingError

#: The databases that this process has open, by path.
_open: dict[str, Database[Any, Any]] = {}
#: Held while they are opened or closed: the threads of a worker open a database once.
_opening = threading.Lock()


def shard_of(key: Any, shards: int) -> int:
    """Returns the shard of a key. It is the same in every process and version."""
    if isinstance(key, str):
        data = key.encode()
    elif hasattr(key, "__index__"):
        data = key.__index__().to_bytes(9, "big", signed=True)
    else:
        data = bytes(key)
    return zlib.crc32(data) % shards


def split(keys: Iterable[Any], shards: int) -> tuple[list[list[int]], int]:
    """Returns for each shard the positions of its keys, and the number of keys."""
    positions: list[list[int]] = [[] for _ in range(shards)]
    count = 0
    for count, key in enumerate(keys, 1):
        positions[shard_of(key, shards)].append(count - 1)
    return positions, count


def path_of(folder: str, shard: int, shards: int) -> str:
    """Returns the path of the database of a shard."""
    return os.path.join(folder, f"shard-{shard:05}-of-{shards:05}")


def _settings_of(path: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of a shard: each has its own directory on a disk that all of them share."""
    disk = settings.get("disk")
    if disk is None or not os.path.isabs(disk):
        return settings
    return {**settings, "disk": os.path.join(disk, os.path.basename(path))}


def run(path: str, settings: dict[str, Any], method: str, *arguments: Any) -> Any:
    """Calls a method of the database at `path`, which this process opens when it is first used."""
    with _opening:
        if method == "close":
            database = _open.pop(path, None)
            return database.close() if database else None
        database = _open.get(path)
        if database is None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            database = _open[path] = open(path, **_settings_of(path, settings))
    if method == "checkpoint":
        from . import checkpoints

        return checkpoints.save(database, *arguments)
    return getattr(database, method)(*arguments)


def _pairs(records: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Returns the pairs of a mapping or an iterable. A table is not one: its items are its columns."""
    if hasattr(records, "columns") and (hasattr(records, "__arrow_c_stream__") or hasattr(records, "__dataframe__")):
        raise SettingError(
            f"records: {type(records).__name__} is a table, and not pairs; zip the columns of its keys and values"
        )
    items = getattr(records, "items", None)
    return list(records if items is None else items())


class Shards:
    """A store whose shards are databases in other processes. Subclasses call them.

    Calls for many keys go to all shards at the same time. Every call of a shard is atomic as it is for a database; a
    call over several shards is not.
    """

    shards: int

    def _call(self, shard: int, method: str, *arguments: Any) -> Any:
        """Starts a call and returns its future."""
        raise NotImplementedError

    def _gather(self, futures: list[Any]) -> list[Any]:
        """Returns the results of calls."""
        raise NotImplementedError

    def _each(self, method: str, *arguments: Any) -> list[Any]:
        return self._gather([self._call(shard, method, *arguments) for shard in range(self.shards)])

    def _many(self, method: str, keys: list[Any], items: list[Any], *arguments: Any) -> list[Any]:
        """Calls a method that returns a list with the items of each shard, and returns one list, in their order."""
        positions, count = split(keys, self.shards)
        used = [shard for shard, own in enumerate(positions) if own]
        futures = [self._call(shard, method, [items[at] for at in positions[shard]], *arguments) for shard in used]
        results: list[Any] = [None] * count
        for shard, found in zip(used, self._gather(futures)):
            for at, result in zip(positions[shard], found):
                results[at] = result
        return results

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        """Returns the values of many keys, in their order; `default` for absent keys."""
        keys = list(keys)
        return self._many("get_many", keys, keys, default)

    def contains_many(self, keys: Iterable[Any]) -> list[bool]:
        """Returns for each of many keys whether it exists."""
        keys = list(keys)
        return self._many("contains_many", keys, keys)

    def insert_many_if_absent(self, records: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> list[bool]:
        """Puts the records whose keys are absent, and returns for each whether it was put.

        A call that is retried after its process has died may return False for a record that it has put.
        """
        pairs = _pairs(records)
        return self._many("insert_many_if_absent", [key for key, _ in pairs], pairs)

    def put_many(self, records: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> int:
        """Puts many records and returns their number."""
        pairs = _pairs(records)
        positions, count = split((key for key, _ in pairs), self.shards)
        futures = [
            self._call(shard, "put_many", [pairs[at] for at in own]) for shard, own in enumerate(positions) if own
        ]
        self._gather(futures)
        return count

    def approximate_len(self) -> int:
        """Returns the approximate number of records."""
        return sum(self._each("approximate_len"))

    def sync(self) -> None:
        """Makes all earlier writes durable."""
        self._each("sync")

    def stats(self) -> list[dict[str, Any]]:
        """Returns the statistics of each shard."""
        return self._each("stats")

    def checkpoint(self, url: str) -> None:
        """Writes a checkpoint of each shard below a URL of fsspec, each consistent in itself."""
        futures = [self._call(shard, "checkpoint", path_of(url, shard, self.shards)) for shard in range(self.shards)]
        self._gather(futures)

    def close(self) -> None:
        """Closes all shards. They are opened again when they are used."""
        self._each("close")
