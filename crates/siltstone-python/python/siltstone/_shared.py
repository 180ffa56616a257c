"""One open database per directory and process, for hosts whose objects come and go.

A framework makes several objects for one directory: a cache per thread, a store per array, a copy for reading.
Siltstone opens a directory once. Each object has a `Handle`; the first that is used opens the database, and the last
that is closed or collected closes it::

    Handle("cache") --+
    Handle("cache") --+--> Opened --> Database("cache")
    Handle("pages") -----> Opened --> Database("pages")

The table of open databases holds them weakly: the handles own them.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from ._database import Database, open
from ._errors import LockedError, NotFoundError, SettingError


class Opened:
    """A database that is open in this process."""

    def __init__(self, database: Database[Any, Any], settings: dict[str, Any]) -> None:
        self.database = database
        self.settings = settings
        self.users: weakref.WeakSet[Handle] = weakref.WeakSet()
        #: For whoever writes many keys as one step.
        self.lock = threading.RLock()


#: What is open, by process and path: after a fork, a child has what its parent has open, and may not use it.
_opened: weakref.WeakValueDictionary[tuple[int, str], Opened] = weakref.WeakValueDictionary()
_guard = threading.Lock()


def _after_fork() -> None:
    """Another thread of the parent may have held the lock."""
    global _guard
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Handle:
    """A database that is opened at the first use, and shared by all handles of the process for the same directory.

    `settings` are those of `siltstone.open`; the handle that opens the database has to have stated them, too. `new` has
    further ones for a database that does not exist yet. `remedy` ends the text of the error when another process has
    the database. A handle that is `read_only` opens the database with the flag ``r``, unless a handle of the process
    has it open.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: dict[str, Any],
        remedy: str,
        *,
        new: dict[str, Any] | None = None,
        read_only: bool = False,
    ) -> None:
        self.path = os.path.abspath(os.fsdecode(path))
        self.settings = settings
        self.remedy = remedy
        self.new = new or {}
        self.read_only = read_only
        self._used: tuple[int, Opened] | None = None

    @property
    def opened(self) -> Opened:
        """The open database with its lock. Opens it if this process has not."""
        used, process = self._used, os.getpid()
        if used is not None and used[0] == process and not used[1].database.closed:
            return used[1]
        with _guard:
            key = (process, os.path.realpath(self.path))
            opened = _opened.get(key)
            if opened is None or opened.database.closed or (opened.database.read_only and not self.read_only):
                opened = _opened[key] = Opened(self._open(), self.settings)
            elif not self.settings.items() <= opened.settings.items():
                raise SettingError(
                    f"{self.path}: this process has the database open with the settings {opened.settings}; "
                    f"use the same ones, not {self.settings}"
                )
            self._used = process, opened
            opened.users.add(self)
            return opened

    @property
    def database(self) -> Database[Any, Any]:
        """The open database. Opens it if this process has not."""
        return self.opened.database

    def close(self) -> None:
        """Closes the database if no other handle uses it. The next use opens it again."""
        with _guard:
            used, self._used = self._used, None
            if used is not None:
                used[1].users.discard(self)
                if not used[1].users:
                    used[1].database.close()

    def _open(self) -> Database[Any, Any]:
        try:
            if self.read_only:
                return open(self.path, "r", **self.settings)
            try:
                return open(self.path, "w", **self.settings)
            except NotFoundError:
                return open(self.path, "c", **{**self.new, **self.settings})
        except LockedError as error:
            explained = LockedError(f"{error}; {self.remedy}")
            explained.file, explained.remedy = error.file, self.remedy
            raise explained from None
