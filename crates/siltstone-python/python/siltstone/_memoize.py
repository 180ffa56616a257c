"""`Database.memoize`: results of functions, kept in a database."""

from __future__ import annotations

import functools
from typing import Any, Callable

from ._errors import SettingError

_ABSENT: Any = object()


def memoize(
    database: Any, name: str | None, expire: float | None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns the decorator.

    The key is the name of the function, or `name`, and the text of its arguments (`repr`), so arguments need a text
    that is the same in every process: numbers, strings, tuples and the like. Keys longer than 200 characters end with
    a hash. Keyword arguments count in the order of their names. Threads that miss at the same time all compute.
    """
    if database.key_codec not in ("str", "bytes"):
        raise SettingError('memoize: the keys of this database are numbers; use one with keys="str"')

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own_name = name or f"{function.__module__}.{function.__qualname__}"

        def key_of(*args: Any, **named: Any) -> Any:
            """Returns the key of a call."""
            parts = [repr(arg) for arg in args]
            parts += [f"{key}={value!r}" for key, value in sorted(named.items())]
            text = f"{own_name}({', '.join(parts)})"
            if len(text) > 200:
                import hashlib

                digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
                text = f"{text[:120].encode('utf-8', 'replace').decode()}…{digest}"
            return text if database.key_codec == "str" else text.encode()

        @functools.wraps(function)
        def memoized(*args: Any, **named: Any) -> Any:
            key = key_of(*args, **named)
            result = database.get(key, _ABSENT)
            if result is _ABSENT:
                result = function(*args, **named)
                database.put(key, result, expire=expire)
            return result

        memoized.key_of = key_of  # type: ignore[attr-defined]
        return memoized

    return decorate
