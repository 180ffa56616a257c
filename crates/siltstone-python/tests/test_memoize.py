"""Results of functions are kept by the values of their arguments."""

import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import math
import pathlib
import threading
import uuid
import zoneinfo

import pytest
import siltstone


@pytest.fixture
def cache(path):
    with siltstone.open(path, keys="str", values="pickle") as db:
        yield db


def test_a_function_is_memoized(path):
    with siltstone.open(path, keys="str", values="json") as db:
        calls = []

        @db.memoize(name="f", expire=1000)
        def f(a, b=0):
            calls.append((a, b))
            return None if a == 0 else [a, b]

        assert [f(1), f(1), f(1, b=2), f("1"), f(0), f(0)] == [[1, 0], [1, 0], [1, 2], ["1", 0], None, None]
        assert calls == [(1, 0), (1, 2), ("1", 0), (0, 0)]
        assert db[f.key_of(1)] == [1, 0] and len(f.key_of("x" * 10_000)) < 300
        assert f("x" * 10_000) == f("x" * 10_000) and len(calls) == 5
        assert db.delete_prefix("f:") == 5 and not db


class Colour(enum.Enum):
    RED = 1
    ROSE = 2


class Size(enum.IntFlag):
    SMALL = 1
    LARGE = 2


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NOON = datetime.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)

#: Values. No two may share a result, also those that are equal.
# fmt: off
DIFFERENT = [
    *(None, True, False, 1, 0, -1, 256, -256, 2**64, 1.0, 0.0, -0.0, math.inf, 1 + 2**-52, 1 + 2**-51),
    *(1 + 0j, complex(0, -0.0), "1", "", "\ud800", b"1", bytearray(b"1"), (1,), [1], {1}, frozenset({1}), {1: 1}),
    *({"a": 1, "b": 2}, {"b": 2, "a": 1}, (1, 2), (12,), ((1,), 2), ("ab", "c"), ("a", "bc"), [], (), {}, [[]]),
    *([[], []], {(1, 2), (1, 3)}, {(1, 2), (1, 4)}, range(3), range(0, 3, 2), slice(3), ..., fractions.Fraction(1, 2)),
    *(decimal.Decimal("1"), decimal.Decimal("1.0")),
    *(datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1), datetime.time(1), datetime.timedelta(1)),
    *(datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc), NOON, NOON.replace(fold=1)),
    *(NOON.astimezone(datetime.timezone.utc), Colour.RED, Colour.ROSE, Size.SMALL, Size.SMALL | Size.LARGE),
    *(pathlib.Path("a"), pathlib.PurePosixPath("a"), uuid.UUID(int=1)),
]
# fmt: on


def test_arguments_of_different_values_or_types_have_results_of_their_own(cache):
    same = cache.memoize(name="same")(lambda value: (type(value).__name__, repr(value)))
    for value in DIFFERENT * 2:
        assert same(value) == (type(value).__name__, repr(value))
    assert len(cache) == len(DIFFERENT)


def test_equal_arguments_share_a_result(cache):
    calls = []

    @cache.memoize(name="count")
    def count(value, *more, scale=1, **named):
        calls.append(value)
        return len(calls)

    equal = [
        (math.nan, float("nan")),
        ("x" * 10, "".join(["x"] * 10)),
        ({str(number) for number in range(1000)}, set(reversed([str(number) for number in range(1000)]))),
        (Colour.RED, Colour(1)),
        (uuid.UUID(int=5), uuid.UUID(int=5)),
    ]
    for one, other in equal:
        assert count(one) == count(other) == count(value=one) == count(other, scale=1)
    assert len(calls) == len(equal)
    assert len({count(1), count(1, 2), count(1, scale=2), count(1, other=2)}) == 4


def test_arrays_are_told_apart_by_every_item(cache):
    numpy = pytest.importorskip("numpy")
    same = cache.memoize(name="same")(lambda array: (str(array.dtype), array.shape, array.tobytes()))
    zeros = numpy.zeros(5000)
    seven = zeros.copy()
    seven[2500] = 7
    arrays = [
        *(
            zeros,
            seven,
            zeros.astype("f4"),
            zeros.astype(">f8"),
            zeros.reshape(50, 100),
            zeros.reshape(100, 50),
            zeros[:0],
        ),
        *(
            numpy.array([1 + 1e-10]),
            numpy.array([1 + 2e-10]),
            numpy.array([0.0]),
            numpy.array([-0.0]),
            numpy.array(0.0),
        ),
        *(numpy.float64(0), numpy.float32(0), numpy.int64(0), numpy.bool_(False), numpy.str_("a"), numpy.array(["a"])),
        numpy.array(["2026-01-01"], dtype="M8[D]"),
        numpy.array(["2026-01-01"], dtype="M8[s]"),
        numpy.zeros(1, dtype=[("a", "i4"), ("b", "i4")]),
        numpy.zeros(1, dtype=[("a", "i4"), ("c", "i4")]),
    ]
    for array in arrays:
        assert same(array) == (str(array.dtype), array.shape, array.tobytes())
    assert len(cache) == len(arrays)
    wide = numpy.arange(12.0).reshape(3, 4)
    before = len(cache)
    same(wide), same(numpy.asfortranarray(wide)), same(numpy.arange(24.0)[::2].reshape(3, 4) / 2)
    assert len(cache) == before + 1


class Point:
    def __init__(self, value):
        self.value = value

    def method(self):
        return self.value


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Config:
    name: str
    seed: int = dataclasses.field(default=0, repr=False)


def unknown():
    yield from [
        Point(1),
        Point,
        [Point(1)],
        {"a": Point(1)},
        {Point(1)},
        lambda: 1,
        object(),
        Config("a", 1),
        Pair(1, 2),
    ]
    yield from [iter([1]), memoryview(b"1"), collections.OrderedDict(a=1), math, Point(1).method, Exception()]
    loop = []
    loop.append(loop)
    yield loop
    try:
        import numpy

        yield from [
            numpy.array([Point(1)]),
            numpy.ma.array([1], mask=[1]),
            numpy.matrix([[1]]),
            numpy.array([[1], "a"], dtype=object),
        ]
    except ImportError:
        pass
    try:
        import pandas

        yield pandas.DataFrame({"v": range(1000)})
    except ImportError:
        pass


def test_arguments_of_unknown_types_are_refused_with_a_remedy(cache):
    @cache.memoize()
    def use(first, value):
        raise AssertionError("must not be called")

    for value in unknown():
        with pytest.raises(TypeError, match=r"`value` of .*key="):
            use(1, value)
    assert not cache


def test_a_function_chooses_what_stands_for_a_call(cache):
    by_value = cache.memoize(name="points", key=lambda point, scale=1: (point.value, scale))(
        lambda point, scale=1: point.value * scale
    )
    assert [by_value(Point(value)) for value in range(50)] == list(range(50)) and by_value(Point(3), scale=2) == 6
    assert len(cache) == 51
    with pytest.raises(TypeError, match="result of key="):
        cache.memoize(name="wrong", key=lambda point: point)(Point.method)(Point(1))


def test_a_default_of_an_unknown_type_is_no_obstacle(cache):
    nothing = object()

    @cache.memoize()
    def f(value, other=nothing):
        return (value, other is nothing)

    assert f(1) == f(1) == f(1, nothing) == (1, True) and len(cache) == 1
    with pytest.raises(TypeError, match="`other`"):
        f(1, object())


def test_functions_without_a_name_of_their_own_need_one(cache):
    with pytest.raises(siltstone.SettingError, match="name="):
        cache.memoize()(lambda value: value)
    with pytest.raises(siltstone.SettingError, match="name="):
        cache.memoize()(functools.partial(pow, 2))
    with pytest.raises(TypeError, match="bound"):
        cache.memoize()(Point(1).method)
    for number in (2, 3):

        @cache.memoize()
        def times(value, number=None):
            return value

        def make(factor):
            @cache.memoize()
            def scaled(value):
                return value * factor

            return scaled

        assert make(number)(5) == 5 * number
    assert cache.memoize()(math.sqrt)(4.0) == 2.0


def test_functions_that_capture_other_objects_do_not_share_results(cache):
    def make(model, name=None):
        @cache.memoize(name=name)
        def predict(value):
            return model(value)

        return predict

    def double(value):
        return 2 * value

    # Functions that capture nothing are known by their names, and other objects by no value.
    assert make(double)(1) == 2 and make(math.sqrt, "roots")(1) == 1.0 and make(int)(1) == 1
    for model in (lambda value: value, math.sqrt, functools.partial(pow, 2), Point(1).method):
        with pytest.raises(TypeError, match="captures `model`.*name="):
            make(model)
    assert make(lambda value: value + 1, "one more")(1) == 2 and len(cache) == 4


def test_functions_whose_results_cannot_be_kept_are_refused(cache):
    def numbers():
        yield 1

    async def letters():
        yield "a"

    for function in (numbers, letters, staticmethod(len), 7):
        with pytest.raises(TypeError, match="memoize: "):
            cache.memoize(name="f")(function)

    async def later():
        return 1

    with pytest.raises(TypeError, match="async def"):
        cache.memoize(name="f")(lambda: later())()


def test_coroutines_are_memoized_and_compute_once(cache):
    calls = []

    @cache.memoize()
    async def slow(number):
        calls.append(number)
        await asyncio.sleep(0)
        if number < 0:
            raise ValueError("negative")
        return number * number

    async def main():
        assert await asyncio.gather(*[slow(number) for number in [3, 4] * 10]) == [9, 16] * 10
        assert await slow(number=3) == 9

    asyncio.run(main())
    asyncio.run(main())
    assert sorted(calls) == [3, 4]
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            asyncio.run(slow(-1))
    assert calls.count(-1) == 2


def test_threads_that_miss_compute_once(cache):
    started, calls = threading.Barrier(8), []

    @cache.memoize()
    def slow(number):
        calls.append(number)
        return slow(number - 1) + 1 if number else 0

    results = []

    def call():
        started.wait()
        results.append(slow(20))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [20] * 8 and sorted(calls) == list(range(21))
