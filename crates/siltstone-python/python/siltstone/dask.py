"""A store whose shards are databases of Dask workers. Needs ``dask[distributed]``.

Each shard is a directory that the worker of the shard opens at its first call. Dask places the calls, starts a worker that died
anew, and repeats its calls. The folder must be one that the worker finds again after a restart: a disk of its machine, or a
shared file system.

::

    client = dask.distributed.Client(...)
    seen = siltstone.dask.ShardedStore(client, "/data/seen", keys="str")
    seen.insert_many_if_absent([("a", b""), ("b", b"")])
"""

from __future__ import annotations

import uuid
from typing import Any

import distributed
from dask.base import annotate

from . import _shards
from ._errors import Error


class _Placement(distributed.SchedulerPlugin):  # type: ignore[misc, unused-ignore]
    """Ties the calls of a shard to the worker that has a name.

    By itself, Dask ties a call to the address of a worker, and a worker that was restarted has another one.
    """

    name = "siltstone-placement"
    idempotent = True

    def update_graph(self, scheduler: Any, *, annotations: dict[str, dict[Any, Any]], **_: Any) -> None:
        """Called before Dask schedules new calls."""
        for key, worker in annotations.get("siltstone_worker", {}).items():
            # A worker that is away has no address: the call waits for it.
            scheduler.set_restrictions({key: [scheduler.aliases.get(worker, f"away: {worker}")]})

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Called for each worker that joins, before Dask schedules the calls that wait for one."""
        name = scheduler.workers[worker].name
        for task in scheduler.unrunnable:
            if (task.annotations or {}).get("siltstone_worker") == name:
                scheduler.set_restrictions({task.key: [worker]})


def _run(name: Any, *arguments: Any) -> Any:
    """Runs a call on the worker of a shard."""
    own = distributed.get_worker().name
    if own != name:
        raise Error(f"a call for the worker {name} came to {own}: the scheduler has lost the plugin {_Placement.name}")
    return _shards.run(*arguments)


class ShardedStore(_shards.Shards):
    """A store over the workers of a client of Dask.

    `shards` is their number, by default one per worker; it must be the same at each open. `retries` is how often
    Dask repeats a call that failed; how often it repeats a call whose worker died is Dask's setting
    ``distributed.scheduler.allowed-failures``. Further arguments are those of `siltstone.open`.
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
        client.register_plugin(_Placement())

    def _call(self, shard: int, method: str, *arguments: Any) -> Any:
        path = _shards.path_of(self.folder, shard, self.shards)
        worker = self.workers[shard % len(self.workers)]
        key = f"siltstone-{method}-{shard}-{uuid.uuid4().hex}"
        with annotate(siltstone_worker=worker):
            return self.client.submit(
                _run, worker, path, self.settings, method, *arguments, key=key, retries=self.retries, pure=False
            )

    def _gather(self, futures: list[Any]) -> list[Any]:
        results: list[Any] = self.client.gather(futures)
        return results
