"""The class `Dictionary`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from . import _arrays, _codecs, _siltstone
from ._store import Store

# As in `typing`, which takes longer to import than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from ._codecs import CodecName
    from ._store import Progress

    K = TypeVar("K")
    V = TypeVar("V")
else:
    K = V = object


class Dictionary(Store[K, V], _siltstone.Dictionary[K, V], Mapping[K, V]):
    """A read-only file of records that is built once and shared by many processes.

    It can be used from any thread, after a fork, and pickled: the copy opens the same path. `keys` and `values` are
    codecs as those of `siltstone.open`; a dictionary does not remember them. `index_in_memory=False` leaves the index
    on flash, `access` is ``buffered``, ``direct`` or ``direct_or_buffered``.

    >>> import siltstone, tempfile
    >>> path = tempfile.mkdtemp() + "/capitals.dict"
    >>> capitals = siltstone.Dictionary.build(path, {"France": "Paris", "Peru": "Lima"}, keys="str", values="json")
    >>> capitals["Peru"], len(capitals), capitals.get_many(["France", "Chad"])
    ('Lima', 2, ['Paris', None])
    """

    value_codec: str
    key_codec: str
    path: str
    _arguments: tuple[Any, ...]

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        keys: CodecName = "bytes",
        values: CodecName = "raw",
        index_in_memory: bool = True,
        access: str | None = None,
    ) -> Dictionary[K, V]:
        """Opens the dictionary at `path`."""
        path = os.fsdecode(path)
        key_codec, value_codec = _codecs.key_name(keys), _codecs.value_name(values)
        functions = _codecs.value_functions(value_codec)
        own = super().__new__(cls, path, key_codec, functions, index_in_memory, access)
        own.path, own.key_codec, own.value_codec = path, key_codec, value_codec
        own._arguments = (os.path.abspath(path), key_codec, value_codec, index_in_memory, access)
        return own

    @classmethod
    def build(
        cls,
        path: str | os.PathLike[str],
        records: Mapping[K, V] | Iterable[tuple[K, V]],
        *,
        keys: CodecName = "bytes",
        values: CodecName = "raw",
        fixed: tuple[int, int] | None = None,
        hashed_keys: bool = False,
        block_bytes: int | str | None = None,
        index: str = "fences",
        memory_bytes: int | str | None = None,
        refuse_duplicates: bool = False,
        progress: Progress = None,
    ) -> Dictionary[K, V]:
        """Builds a dictionary from a mapping or pairs, in any order, and returns it, open.

        The records are sorted with `memory_bytes` (256 MiB) and temporary files next to `path`; sizes can be text, such
        as ``"64MiB"``. `index` is ``fences``, ``sparse_trie``, ``dense_trie`` or ``none``. The last record of a key
        applies, unless duplicates are refused. `progress` is called with the records that were read and their number,
        which is None for an iterator; True shows a bar of ``tqdm``. If the call fails or is interrupted, a file at
        `path` is as before.
        """
        from ._progress import reporting

        path = os.fsdecode(path)
        key_codec, value_codec = _codecs.key_name(keys), _codecs.value_name(values)
        functions = _codecs.value_functions(value_codec)
        shape = (fixed, hashed_keys, block_bytes, index, memory_bytes, refuse_duplicates)
        with reporting(progress, "build", " records") as report:
            cls._build(path, records, key_codec, functions, *shape, report)
        return cls(path, keys=key_codec, values=value_codec)

    def get_many(self, keys: Any, default: Any = None, *, out: Any = None) -> Any:
        """Returns the values of many keys, as `Database.get_many`."""
        if out is None and not _arrays.is_array(keys):
            return self._get_many(keys, default)
        return _arrays.get_many(self, keys, out)

    def contains_many(self, keys: Iterable[K]) -> list[bool]:
        """Returns for each of many keys whether it exists."""
        return self._contains_many(keys)

    def _fixed(self) -> tuple[int, int] | None:
        fixed: tuple[int, int] | None = self.info()["fixed"]
        return fixed

    def _state(self) -> dict[str, Any]:
        return {"records": f"{len(self):,}", "is": "", "disk_bytes": self.info()["file_bytes"]}

    def __reduce__(self) -> Any:
        return _reopened, (type(self), *self._arguments)


def _reopened(
    kind: type[Dictionary[Any, Any]], path: str, keys: str, values: str, index_in_memory: bool, access: str | None
) -> Dictionary[Any, Any]:
    return kind(path, keys=keys, values=values, index_in_memory=index_in_memory, access=access)
