"""`Database.aget`: gets of one turn of an event loop become one `get_many` on a thread."""

from __future__ import annotations

import asyncio
from typing import Any

#: The keys of a lookup, at most.
KEYS_MAX = 4096


class Lookups:
    """The gets that wait on an event loop."""

    def __init__(self, database: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.database = database
        self.loop = loop
        self.waiting: list[tuple[Any, Any, asyncio.Future[Any]]] = []
        self.is_scheduled = False
        self.running: set[asyncio.Task[None]] = set()

    async def get(self, key: Any, default: Any) -> Any:
        """Returns the value of a key."""
        future = self.loop.create_future()
        self.waiting.append((key, default, future))
        if not self.is_scheduled:
            self.is_scheduled = True
            self.loop.call_soon(self.start)
        return await future

    def start(self) -> None:
        """Starts the lookup of what waits."""
        self.is_scheduled = False
        waiting, self.waiting = self.waiting, []
        for first in range(0, len(waiting), KEYS_MAX):
            task = self.loop.create_task(self.look_up(waiting[first : first + KEYS_MAX]))
            self.running.add(task)
            task.add_done_callback(self.running.discard)

    async def look_up(self, waiting: list[tuple[Any, Any, asyncio.Future[Any]]]) -> None:
        """Looks up keys on a thread. A key that is refused fails alone."""
        absent = object()
        keys = [key for key, _, _ in waiting]
        try:
            values = await asyncio.to_thread(self.database._get_many, keys, absent)
        except Exception as error:
            if len(waiting) == 1:
                _finish(waiting[0][2], error=error)
                return
            for one in waiting:
                await self.look_up([one])
            return
        for (_, default, future), value in zip(waiting, values):
            _finish(future, default if value is absent else value)


def _finish(future: asyncio.Future[Any], value: Any = None, error: Exception | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def lookups_of(database: Any) -> Lookups:
    """Returns the lookups of a database on the running event loop."""
    loop = asyncio.get_running_loop()
    lookups: Lookups | None = database._lookups
    if lookups is None or lookups.loop is not loop:
        lookups = database._lookups = Lookups(database, loop)
    return lookups
