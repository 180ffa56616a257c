"""The class `Dictionary`."""

from __future__ import annotations

import os
from collections.abc import Iterable, KeysView, Mapping

from . import _arrays, _codecs, _siltstone
from ._views import Items, Keys, Values

# As in `typing`, which takes longer to import than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
else:
    K = V = object


class Dictionary(_siltstone.Dictionary[K, V], Mapping[K, V]):
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
        keys: str = "bytes",
        values: str = "raw",
        index_in_memory: bool = True,
        access: str | None = None,
    ) -> Dictionary[K, V]:
        """Opens the dictionary at `path`."""
        path = os.fsdecode(path)
        own = super().__new__(cls, path, keys, _codecs.value_functions(values), index_in_memory, access)
        own.path, own.key_codec, own.value_codec = path, keys, values
        own._arguments = (os.path.abspath(path), keys, values, index_in_memory, access)
        return own

    @classmethod
    def build(
        cls,
        path: str | os.PathLike[str],
        records: Mapping[K, V] | Iterable[tuple[K, V]],
        *,
        keys: str = "bytes",
        values: str = "raw",
        fixed: tuple[int, int] | None = None,
        hashed_keys: bool = False,
        block_bytes: int | None = None,
        index: str = "fences",
        memory_bytes: int | None = None,
        refuse_duplicates: bool = False,
    ) -> Dictionary[K, V]:
        """Builds a dictionary from a mapping or pairs, in any order, and returns it, open.

        The records are sorted with `memory_bytes` (256 MiB) and temporary files next to `path`. `index` is
        ``fences``, ``sparse_trie``, ``dense_trie`` or ``none``. The last record of a key applies, unless duplicates
        are refused. If the call fails or is interrupted, a file at `path` is as before.
        """
        path = os.fsdecode(path)
        functions = _codecs.value_functions(values)
        cls._build(
            path, records, keys, functions, fixed, hashed_keys, block_bytes, index, memory_bytes, refuse_duplicates
        )
        return cls(path, keys=keys, values=values)

    def keys(self) -> KeysView[K]:
        """Returns the keys, in the order of their hashes."""
        return Keys(self)

    def values(self) -> Values[V]:
        """Returns the values."""
        return Values(self)

    def items(self) -> Items[K, V]:
        """Returns the pairs of keys and values."""
        return Items(self)

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

    def __repr__(self) -> str:
        return f"<siltstone.Dictionary {self.path!r}, {len(self)} records>"

    def __reduce__(self) -> Any:
        return _reopened, (type(self), *self._arguments)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Mapping):
            return NotImplemented
        return dict(self.items()) == dict(other.items())


def _reopened(
    kind: type[Dictionary[Any, Any]], path: str, keys: str, values: str, index_in_memory: bool, access: str | None
) -> Dictionary[Any, Any]:
    return kind(path, keys=keys, values=values, index_in_memory=index_in_memory, access=access)
