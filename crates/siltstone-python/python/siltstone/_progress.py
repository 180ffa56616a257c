"""Reports of long calls: to a function, or as a bar of ``tqdm``. Nothing here is imported unless a call asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ._errors import SettingError


@contextmanager
def reporting(progress: Any, what: str, unit: str) -> Iterator[Callable[[int, int | None], object] | None]:
    """Makes a function of what is done and the total, which is None where it is not known.

    `progress` is such a function; True for a bar of ``tqdm``, which begins with `what` and ends with the call; False or
    None for no reports. `unit` is ``B`` for bytes.
    """
    if progress is None or progress is False:
        yield None
    elif progress is not True:
        if not callable(progress):
            raise SettingError(f"progress: {progress!r} is neither True nor a function of what is done and the total")
        yield progress
    else:
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise SettingError(
                "progress: True needs tqdm; install it, or pass a function of what is done and the total"
            ) from None
        divisor = 1024 if unit == "B" else 1000
        with tqdm(desc=what, unit=unit, unit_scale=True, unit_divisor=divisor) as bar:

            def show(done: int, total: int | None) -> None:
                if total is not None:
                    bar.total = total
                bar.update(done - bar.n)

            yield show
            bar.refresh()
