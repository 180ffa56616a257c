"""Checkpoints of databases in any file system of ``fsspec``: local, S3, memory.

>>> import siltstone, tempfile
>>> from siltstone import checkpoints
>>> folder = tempfile.mkdtemp()
>>> with siltstone.open(folder + "/db", keys="str") as db:
...     db["a"] = b"1"
...     checkpoints.save(db, "memory://backup/db")
>>> checkpoints.load("memory://backup/db", folder + "/restored")
>>> with siltstone.open(folder + "/restored", "r") as db:
...     db["a"]
b'1'
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import fsspec

from ._errors import Error, NotADatabaseError

#: Written last: the names of the files with their lengths.
LIST = "CHECKPOINT.json"


def save(database: Any, url: str) -> None:
    """Writes a consistent copy of an open database below `url`, which must have no checkpoint yet.

    The copy is made next to the database first, by hard links where possible. A checkpoint is complete when its list
    of files exists, which is written last.
    """
    system, folder = fsspec.core.url_to_fs(url)
    if system.exists(f"{folder}/{LIST}"):
        raise Error(f"{url}: there is a checkpoint already; use another URL")
    path = os.fspath(database.path)
    with tempfile.TemporaryDirectory(prefix=".checkpoint-", dir=os.path.dirname(os.path.abspath(path))) as temporary:
        copy = os.path.join(temporary, "copy")
        database.checkpoint(copy)
        names = sorted(name for name in os.listdir(copy) if os.path.isfile(os.path.join(copy, name)))
        lengths = {name: os.path.getsize(os.path.join(copy, name)) for name in names}
        system.makedirs(folder, exist_ok=True)
        for name in names:
            system.put_file(os.path.join(copy, name), f"{folder}/{name}")
        with system.open(f"{folder}/{LIST}", "w") as file:
            json.dump({"version": 1, "files": lengths}, file)


def load(url: str, path: str | os.PathLike[str]) -> None:
    """Writes the database of a checkpoint to the directory `path`, which must be empty or not exist."""
    system, folder = fsspec.core.url_to_fs(url)
    if not system.exists(f"{folder}/{LIST}"):
        raise NotADatabaseError(f"{url}: there is no complete checkpoint; {LIST} is missing")
    os.makedirs(path, exist_ok=True)
    if os.listdir(path):
        raise NotADatabaseError(f"{os.fspath(path)}: the directory is not empty; use an empty or a new directory")
    with system.open(f"{folder}/{LIST}") as file:
        lengths: dict[str, int] = json.load(file)["files"]
    for name, length in lengths.items():
        target = os.path.join(path, os.path.basename(name))
        system.get_file(f"{folder}/{name}", target)
        if os.path.getsize(target) != length:
            raise NotADatabaseError(f"{url}/{name}: {os.path.getsize(target)} bytes instead of {length}")
