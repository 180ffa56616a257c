"""What databases and dictionaries have in common: views, tables, verification, how they are shown."""

from __future__ import annotations

import os
from collections.abc import KeysView, Mapping

from ._views import Items, Keys, Values

# As in `typing`, which takes longer to import than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, TypeVar

    #: A function of what is done and the total, or whether to show a bar of tqdm.
    Progress = Callable[[int, Any], object] | bool | None

    K = TypeVar("K")
    V = TypeVar("V")
else:
    K = V = object


class Store(Mapping[K, V]):
    """Records of which each is a key and a value, by their codecs."""

    value_codec: str

    def keys(self) -> KeysView[K]:
        """Returns the keys, in the order of the engine, which is that of their hashes. Iteration reads a snapshot."""
        return Keys(self)

    def values(self) -> Values[V]:
        """Returns the values. Iteration reads a snapshot."""
        return Values(self)

    def items(self) -> Items[K, V]:
        """Returns the pairs of keys and values. Iteration reads a snapshot."""
        return Items(self)

    def to_arrow(self, *, batch_size: int = 65_536, value_type: Any = None) -> Any:
        """Returns the records as a stream of Arrow batches: see `siltstone.arrow.reader`. Needs ``pyarrow``."""
        from . import arrow

        return arrow.reader(self, batch_size, value_type=value_type)

    def to_pandas(self) -> Any:
        """Returns all records as a DataFrame by key: see `siltstone.pandas.to_frame`. Needs ``pandas``."""
        from . import pandas

        return pandas.to_frame(self)

    def verify(self, progress: Progress = None) -> dict[str, Any]:
        """Reads everything and returns the damage.

        `live_records` is the number of records, each key once; None if there is damage. `progress` is called with the
        bytes read and the total; True shows a bar of ``tqdm``.
        """
        verify: Callable[..., dict[str, Any]] = self._verify  # type: ignore[attr-defined]
        if progress is None:
            return verify()
        from ._progress import reporting

        with reporting(progress, "verify", "B") as report:
            return verify(report)

    def _state(self) -> dict[str, Any]:
        """Returns what `repr` shows besides the path: cheap, and never an error."""
        raise NotImplementedError

    def __repr__(self) -> str:
        state = self._state()
        name = f"<siltstone.{type(self).__name__} {os.fspath(self.path)!r}"  # type: ignore[attr-defined]
        codecs = f"keys={self.key_codec!r}, values={self.value_codec!r}"  # type: ignore[attr-defined]
        engine = f"engine={state['engine']!r}, " if "engine" in state else ""
        records = f", {state['records']} records" if "records" in state else ""
        return f"{name}, {engine}{codecs}{records}{', ' if state['is'] else ''}{state['is']}>"

    def _repr_html_(self) -> str:
        """Returns a table for a notebook."""
        from html import escape

        state = self._state()
        rows = {
            "path": os.fspath(self.path),  # type: ignore[attr-defined]
            "engine": state.get("engine"),
            "keys": self.key_codec,  # type: ignore[attr-defined]
            "values": self.value_codec,
            "records": state.get("records"),
            "on flash": _size(state.get("disk_bytes")),
            "memory": _size(state.get("ram_bytes")),
            "state": state["is"],
        }
        cells = "".join(
            f"<tr><th style='text-align: left'>{name}</th><td style='text-align: left'>{escape(str(value))}</td></tr>"
            for name, value in rows.items()
            if value
        )
        return f"<table><caption>siltstone.{escape(type(self).__name__)}</caption>{cells}</table>"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Mapping):
            return NotImplemented
        return dict(self.items()) == dict(other.items())


def _size(count: int | None) -> str:
    """Returns a number of bytes for people."""
    if count is None:
        return ""
    units = iter(("B", "KiB", "MiB", "GiB", "TiB", "PiB"))
    size, unit = float(count), next(units)
    while size >= 1024 and unit != "PiB":
        size, unit = size / 1024, next(units)
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"

