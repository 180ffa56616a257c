"""The exceptions. All are `siltstone.Error`, which is a `dbm.error`."""

from __future__ import annotations

import dbm
import os

# As in `typing`, which takes longer to import than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    _Base = Exception
else:
    _Base = dbm.error[0]


class Error(_Base):
    """An error of a database or a dictionary. Its text names the thing, the limit and the remedy."""

    #: The file or the directory, if there is one.
    file: str | os.PathLike[str] | None = None
    #: Where the damage begins, in bytes.
    offset: int | None = None
    #: What to do.
    remedy: str | None = None


class MissingKeyError(Error, KeyError):
    """A key does not exist."""


class NotFoundError(Error, FileNotFoundError):
    """The directory has no database, and the flag does not create one."""


class ChangesLostError(Error, LookupError):
    """The change feed does not have what was written since the position: read all records again."""


class NotADatabaseError(Error):
    """The path has something else: other files, a file, a database of a newer version, no manifest."""


class LockedError(Error):
    """The database is open elsewhere."""


class ClosedError(Error, ValueError):
    """The database is closed."""


class ReadOnlyError(Error):
    """The database was opened with the flag ``r``."""


class ForkedError(Error, RuntimeError):
    """This process was forked from the one that opened the database."""


class CorruptError(Error):
    """Bytes on disk differ from those that were written. `file` and `offset` say where."""


class DecodeError(Error, ValueError):
    """A key or a value is not what its codec writes. What the codec raised is the `__cause__`. The record stays."""


class DeviceError(Error, OSError):
    """The operating system refused an operation. `file` and `errno` say which file and why."""


class PoisonedError(Error):
    """An earlier write failed: the database accepts no writes until it is opened again."""


class FullError(Error):
    """The memory or the capacity is full."""


class SettingError(Error, ValueError):
    """A setting or an argument is invalid or contradicts the database."""


class RecordError(Error, ValueError):
    """A key or a value has a size that the database does not accept, or a key occurs twice."""


class UnsupportedError(Error, NotImplementedError):
    """The engine or the codec does not support the operation."""
