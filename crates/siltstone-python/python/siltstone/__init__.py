"""Siltstone: a key-value store for more keys than memory holds.

>>> import siltstone, tempfile
>>> with siltstone.open(tempfile.mkdtemp() + "/db") as db:
...     db[b"key"] = b"value"
...     db[b"key"]
b'value'

`siltstone.open` opens a `Database`, which one process writes; `Dictionary` is a file that is built once and read by many
processes. `docs/PYTHON.md` of the repository has the settings, codecs, NumPy, several processes and asyncio.
"""

import os as _os

from . import _siltstone
from ._database import Database, open
from ._dictionary import Dictionary
from ._errors import (
    ChangesLostError,
    ClosedError,
    CorruptError,
    DecodeError,
    DeviceError,
    Error,
    ForkedError,
    FullError,
    LockedError,
    MissingKeyError,
    NotADatabaseError,
    NotFoundError,
    PoisonedError,
    ReadOnlyError,
    RecordError,
    SettingError,
    UnsupportedError,
)
from ._siltstone import VERSION as __version__
from ._siltstone import WriteBatch

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_siltstone.after_fork)

__all__ = [
    "ChangesLostError",
    "ClosedError",
    "CorruptError",
    "Database",
    "DecodeError",
    "DeviceError",
    "Dictionary",
    "Error",
    "ForkedError",
    "FullError",
    "LockedError",
    "MissingKeyError",
    "NotADatabaseError",
    "NotFoundError",
    "PoisonedError",
    "ReadOnlyError",
    "RecordError",
    "SettingError",
    "UnsupportedError",
    "WriteBatch",
    "__version__",
    "open",
]
