"""`Database.memoize`: results of functions, kept in a database."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import threading
from collections.abc import Hashable
from datetime import timedelta
from types import MethodType, ModuleType
from typing import Any, Callable

from . import _keying
from ._errors import SettingError

_ABSENT: Any = object()

#: The characters of a function's name that its keys begin with, at most.
NAME_SHOWN = 120


class _Waiting:
    """Locks by key: of those that miss at the same time one computes, and the others wait for its result."""

    def __init__(self, lock: Callable[[], Any]) -> None:
        self.lock = lock
        self.guard = threading.Lock()
        self.locks: dict[Hashable, list[Any]] = {}

    def enter(self, key: Hashable) -> Any:
        """Returns the lock of a key, which `leave` gives back."""
        with self.guard:
            entry = self.locks.setdefault(key, [self.lock(), 0])
            entry[1] += 1
            return entry[0]

    def leave(self, key: Hashable) -> None:
        """Forgets the lock of a key if no other call has it."""
        with self.guard:
            entry = self.locks[key]
            entry[1] -= 1
            if entry[1] == 0:
                del self.locks[key]


def _name_of(function: Any) -> str:
    """Returns the name under which the results of a function are kept."""
    owner = getattr(function, "__self__", None)
    if isinstance(function, MethodType) or (owner is not None and not isinstance(owner, ModuleType)):
        raise TypeError(
            "memoize: a method that is bound to an object, which is not part of the key; memoize a function, and pass "
            "it what it needs"
        )
    name = getattr(function, "__qualname__", None)
    if name is None or "<lambda>" in name:
        raise SettingError(f"memoize: {function!r} has no name of its own; pass name=")
    return f"{function.__module__}.{name}"


def _check(function: Any) -> None:
    """Refuses functions whose results cannot be kept."""
    if isinstance(function, (staticmethod, classmethod, property)):
        raise TypeError(f"memoize: put it below @{type(function).__name__}, above the function")
    if not callable(function):
        raise TypeError("memoize: call it, as @db.memoize()")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"memoize: {function!r} is a generator, which can be read once; return a list")


def _bound(signature: inspect.Signature | None, args: Any, named: Any) -> list[tuple[str, Any, Any]]:
    """Returns the arguments of a call with their names and defaults, in the order of the function."""
    if signature is None:
        positional = [(str(at), value, _ABSENT) for at, value in enumerate(args)]
        return positional + [(name, named[name], _ABSENT) for name in sorted(named)]
    bound = signature.bind(*args, **named)
    bound.apply_defaults()
    return [(name, value, signature.parameters[name].default) for name, value in bound.arguments.items()]


def _captured(function: Any, *, is_named: bool) -> bytes:
    """Returns the bytes of the variables that a function captures, as they are now.

    Those of unknown types are left out if the results have a name of their own. Else functions that differ in them would
    share their results.
    """
    parts = []
    # Compared with an argument that is not given, and so the same in all calls.
    defaults = [*(getattr(function, "__defaults__", None) or ()), *(getattr(function, "__kwdefaults__", None) or {}).values()]
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    for variable, cell in zip(names, getattr(function, "__closure__", None) or ()):
        try:
            value = cell.cell_contents
        except ValueError:  # not yet assigned, as the function itself
            continue
        if any(value is default for default in defaults):
            continue
        try:
            parts.append(_keying.bytes_of((variable, _by_name(value))))
        except TypeError as error:
            if not is_named:
                raise TypeError(
                    f"memoize: {function!r} captures `{variable}`: {error}; pass name= with a name that says which one "
                    "it is, or make it an argument"
                ) from None
    return b"".join(parts)


def _by_name(value: Any) -> Any:
    """Returns the name of a module, a class, or a function that captures nothing; else the value."""
    if isinstance(value, ModuleType):
        return value.__name__
    name = getattr(value, "__qualname__", None)
    is_whole = isinstance(value, type) or (inspect.isfunction(value) and not value.__closure__)
    return f"{value.__module__}.{name}" if name and is_whole and "<lambda>" not in name else value


def _key_function(
    function: Any, name: str | None, key: Callable[..., Any] | None
) -> Callable[..., str]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions in C
        signature = None
    captured = _captured(function, is_named=name is not None)
    name = name or _name_of(function)
    of_function = _keying.bytes_of((name, captured))

    def key_of(*args: Any, **named: Any) -> str:
        """Returns the key of a call."""
        content = [of_function]
        if key is not None:
            chosen = key(*args, **named)
            try:
                content.append(_keying.bytes_of(chosen))
            except TypeError as error:
                raise TypeError(f"memoize: the result of key=: {error}; return one of {_keying.KNOWN}") from None
        else:
            for argument, value, default in _bound(signature, args, named):
                try:
                    part = _keying.bytes_of(value)
                except TypeError as error:
                    if value is default:
                        part = b"default"
                    else:
                        raise TypeError(
                            f"memoize: the argument `{argument}` of {name}: {error}; pass {_keying.KNOWN}, or give "
                            "memoize a function key= that returns one of these for a call"
                        ) from None
                content.append(_keying.bytes_of((argument, part)))
        digest = hashlib.blake2b(b"".join(content), digest_size=32).hexdigest()
        return f"{name[:NAME_SHOWN]}:{digest}"

    return key_of


def memoize(
    database: Any, name: str | None, expire: float | timedelta | None, key: Callable[..., Any] | None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns the decorator.

    The key of a call is the name of the function, or `name`, a colon, and a hash of its arguments by value: see
    `_keying`. The arguments are bound to the function's parameters first, so ``f(1)`` and ``f(a=1)`` are one call. `key`
    is called with the arguments in place of that, and returns the value that represents them. Of threads, and of tasks
    of an event loop, that miss at the same time one computes.
    """
    if database.key_codec not in ("str", "bytes"):
        raise SettingError('memoize: the keys of this database are numbers; use one with keys="str"')

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        _check(function)
        key_text = _key_function(function, name, key)

        def key_of(*args: Any, **named: Any) -> Any:
            """Returns the key of a call."""
            text = key_text(*args, **named)
            return text if database.key_codec == "str" else text.encode()

        wrap = _memoized_coroutine if inspect.iscoroutinefunction(function) else _memoized
        memoized = functools.wraps(function)(wrap(database, function, key_of, expire))
        memoized.key_of = key_of  # type: ignore[attr-defined]
        return memoized

    return decorate


def _memoized(
    database: Any, function: Callable[..., Any], key_of: Callable[..., Any], expire: float | timedelta | None
) -> Callable[..., Any]:
    waiting = _Waiting(threading.RLock)

    def memoized(*args: Any, **named: Any) -> Any:
        key = key_of(*args, **named)
        result = database.get(key, _ABSENT)
        if result is not _ABSENT:
            return result
        lock = waiting.enter(key)
        try:
            with lock:
                result = database.get(key, _ABSENT)
                if result is _ABSENT:
                    result = function(*args, **named)
                    if inspect.iscoroutine(result):
                        result.close()
                        raise TypeError(f"memoize: {function!r} returned a coroutine; define it with `async def`")
                    database.put(key, result, expire=expire)
                return result
        finally:
            waiting.leave(key)

    return memoized


def _memoized_coroutine(
    database: Any, function: Callable[..., Any], key_of: Callable[..., Any], expire: float | timedelta | None
) -> Callable[..., Any]:
    waiting = _Waiting(asyncio.Lock)

    async def memoized(*args: Any, **named: Any) -> Any:
        key = key_of(*args, **named)
        result = await database.aget(key, _ABSENT)
        if result is not _ABSENT:
            return result
        # A lock of asyncio belongs to one event loop.
        own = (asyncio.get_running_loop(), key)
        lock = waiting.enter(own)
        try:
            async with lock:
                result = await database.aget(key, _ABSENT)
                if result is _ABSENT:
                    result = await function(*args, **named)
                    await database.aput(key, result, expire=expire)
                return result
        finally:
            waiting.leave(own)

    return memoized
