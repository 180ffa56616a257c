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
from collections.abc import Iterator
from typing import Any

import fsspec

from ._codecs import StandardDescriptors
from ._errors import Error, NotADatabaseError
from ._progress import reporting

#: Written last: the names of the files with their lengths.
LIST = "CHECKPOINT.json"


def _files(folder: str) -> dict[str, int]:
    """Returns the files below a folder with their lengths; the disk of a database is a folder in its checkpoint."""
    lengths: dict[str, int] = {}
    waiting = [""]
    while waiting:
        within = waiting.pop()
        for entry in os.scandir(os.path.join(folder, within)):
            name = f"{within}/{entry.name}" if within else entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            elif entry.is_file(follow_symlinks=False):
                lengths[name] = entry.stat(follow_symlinks=False).st_size
            else:
                raise Error(f"{entry.path}: neither a file nor a folder, which a checkpoint cannot have; remove it")
    return dict(sorted(lengths.items()))


def _copied(lengths: dict[str, int], report: Any) -> Iterator[str]:
    """Returns the names of files to copy, and reports the bytes of those that were."""
    done, total = 0, sum(lengths.values())
    for name, length in lengths.items():
        yield name
        done += length
        if report is not None:
            report(done, total)


def save(database: Any, url: str, *, progress: Any = None) -> None:
    """Writes a consistent copy of an open database below `url`, which must have no checkpoint yet.

    The copy is made next to the database first, by hard links where possible. It has the disk of a database that has
    one. A checkpoint is complete when its list of files exists, which is written last. `progress` is called after each
    file with the bytes that were copied and their number; True shows a bar of ``tqdm``.
    """
    system, folder = fsspec.core.url_to_fs(url)
    if system.exists(f"{folder}/{LIST}"):
        raise Error(f"{url}: there is a checkpoint already; use another URL")
    path = os.fspath(database.path)
    with tempfile.TemporaryDirectory(prefix=".checkpoint-", dir=os.path.dirname(os.path.abspath(path))) as temporary:
        copy = os.path.join(temporary, "copy")
        database.checkpoint(copy)
        lengths = _files(copy)
        for within in sorted({name.rpartition("/")[0] for name in lengths}):
            system.makedirs(f"{folder}/{within}" if within else folder, exist_ok=True)
        with reporting(progress, "save", "B") as report:
            for name in _copied(lengths, report):
                system.put_file(os.path.join(copy, name), f"{folder}/{name}")
        with system.open(f"{folder}/{LIST}", "w") as file:
            json.dump({"version": 1, "files": lengths}, file)


def _listed(text: str, url: str) -> dict[str, int]:
    """Returns what the list of a checkpoint says, which another user may have written."""
    lengths: dict[str, int] = {}
    try:
        content = json.loads(text)
        lengths = content["files"]
        is_right = content["version"] == 1 and all(type(length) is int for length in lengths.values())
        parts = {name: name.split("/") for name in lengths}
        wrong = [
            name for name in lengths if set(name) & set("\\:\0") or not all(part.strip(".") for part in parts[name])
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_right, wrong = False, []
    if not is_right:
        raise NotADatabaseError(f"{url}/{LIST}: it is damaged, or of a newer version; use another checkpoint")
    if wrong:
        raise NotADatabaseError(
            f"{url}/{LIST}: it names {wrong[0]!r}, which is not below the checkpoint; do not use it"
        )
    return lengths


def load(url: str, path: str | os.PathLike[str], *, progress: Any = None) -> None:
    """Writes the database of a checkpoint to the directory `path`, which must be empty or not exist.

    The disk of a database that has one becomes a folder in it. `progress` is that of `save`.
    """
    system, folder = fsspec.core.url_to_fs(url)
    if not system.exists(f"{folder}/{LIST}"):
        raise NotADatabaseError(f"{url}: there is no complete checkpoint; {LIST} is missing")
    with system.open(f"{folder}/{LIST}") as file:
        lengths = _listed(file.read(), url)
    os.makedirs(path, exist_ok=True)
    if os.listdir(path):
        raise NotADatabaseError(f"{os.fspath(path)}: the directory is not empty; use an empty or a new directory")
    with reporting(progress, "load", "B") as report:
        for name in _copied(lengths, report):
            target = os.path.join(path, *name.split("/"))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with StandardDescriptors():
                system.get_file(f"{folder}/{name}", target)
            if os.path.getsize(target) != lengths[name]:
                raise NotADatabaseError(f"{url}/{name}: {os.path.getsize(target)} bytes instead of {lengths[name]}")
