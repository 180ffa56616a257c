"""Views of a store: `keys()`, `values()` and `items()` read a snapshot."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView

# As in `typing`, which takes longer to import than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
else:
    K = V = object


class Keys(KeysView[K]):
    """The keys."""

    _mapping: Any

    def __iter__(self) -> Iterator[K]:
        return iter(self._mapping)


class Values(ValuesView[V]):
    """The values."""

    _mapping: Any

    def __iter__(self) -> Iterator[V]:
        return iter(self._mapping._iter_values())

    def __contains__(self, value: object) -> bool:
        return any(own is value or own == value for own in self)


class Items(ItemsView[K, V]):
    """The pairs of keys and values."""

    _mapping: Any

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return iter(self._mapping._iter_items())
