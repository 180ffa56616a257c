"""A store whose shards are databases of Dask workers. Needs ``dask[distributed]``.

Each shard is a directory that the worker of the shard opens at its first call. Dask places the calls and retries them. The
folder must be one that the worker finds again after a restart: a disk of its machine, or a shared file system.

::

    client = dask.distributed.Client(...)
    seen = siltstone.dask.ShardedStore(client, "/data/seen", keys="str")
    seen.insert_many_if_absent([("a", b""), ("b", b"")])
"""

from __future__ import annotations

from typing import Any

from . import _shards


class ShardedStore(_shards.Shards):
    """A store over the workers of a client of Dask.

    `shards` is their number, by default one per worker; it must be the same at each opening. `retries` is how often
    Dask repeats a call whose worker died. Further arguments are those of `siltstone.open`.
    """

    def __init__(self, client: Any, folder: str, *, shards: int | None = None, retries: int = 3, **settings: Any):
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        # A worker that is restarted has another address and the same name.
        self.workers = sorted((worker["name"] for worker in workers), key=str)
        self.client = client
        self.folder = folder
        self.shards = shards or len(self.workers)
        self.retries = retries
        self.settings = settings

    def _call(self, shard: int, method: str, *arguments: Any) -> Any:
        path = _shards.path_of(self.folder, shard, self.shards)
        return self.client.submit(
            _shards.run,
            path,
            self.settings,
            method,
            *arguments,
            workers=[self.workers[shard % len(self.workers)]],
            retries=self.retries,
            pure=False,
            key=f"siltstone-{method}-{shard}-{_unique()}",
        )

    def _gather(self, futures: list[Any]) -> list[Any]:
        results: list[Any] = self.client.gather(futures)
        return results


def _unique() -> str:
    import uuid

    return uuid.uuid4().hex
