"""A store whose shards are databases of Ray actors. Needs ``ray``.

Each shard is a directory that its actor opens at its first call. Ray places the actors, restarts them and retries their calls.
The folder must be one that an actor finds again: with several nodes, a shared file system, or `resources` that tie the
actors to nodes.

::

    ray.init(...)
    seen = siltstone.ray.ShardedStore("/data/seen", shards=4, keys="str")
    seen.insert_many_if_absent([("a", b""), ("b", b"")])
"""

from __future__ import annotations

from typing import Any

import ray

from . import _shards


class _Shard:
    """The actor of a shard."""

    def __init__(self, path: str, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings = settings

    def run(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the database."""
        return _shards.run(self.path, self.settings, method, *arguments)


class ShardedStore(_shards.Shards):
    """A store over `shards` actors; the number must be the same at each open.

    `options` are those of the actors (`num_cpus`, `resources`, `max_restarts`). Further arguments are those of
    `siltstone.open`.
    """

    def __init__(self, folder: str, *, shards: int, options: dict[str, Any] | None = None, **settings: Any) -> None:
        chosen = {"max_restarts": -1, "max_task_retries": 3, **(options or {})}
        kind: Any = ray.remote(_Shard).options(**chosen)
        self.shards = shards
        self.actors: list[Any] = [
            kind.remote(_shards.path_of(folder, shard, shards), settings) for shard in range(shards)
        ]

    def _call(self, shard: int, method: str, *arguments: Any) -> Any:
        return self.actors[shard].run.remote(method, *arguments)

    def _gather(self, futures: list[Any]) -> list[Any]:
        results: list[Any] = ray.get(futures)
        return results
