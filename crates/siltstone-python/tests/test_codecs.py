"""Codecs: what goes in comes out, or is refused, and nothing is lost by a value that cannot be decoded."""

import datetime
import decimal
import json
import os
import pickle
import sys
import threading
import types

import pytest
import siltstone
from conftest import settings_of

ENGINES = ["silt", "flashkey", "flashstore", "bloomstore", "mica"]


# Arrays.


def puts(db, keys, row):
    """Every way to store a row, each under the key 1."""
    yield "put", lambda: db.put(1, row)
    yield "item", lambda: db.__setitem__(1, row)
    yield "set", lambda: db.set(1, row)
    yield "add", lambda: db.add(1, row)
    yield "setdefault", lambda: db.setdefault(1, row)
    yield "update", lambda: db.update({1: row})
    yield "pairs", lambda: db.put_many([(1, row)])
    yield "insert pairs", lambda: db.insert_many_if_absent([(1, row)])
    yield "compare_and_swap", lambda: db.compare_and_swap(1, None, row)
    yield "array", lambda: db.put_many(keys, [row])
    yield "insert array", lambda: db.insert_many_if_absent(keys, [row])

    def batch():
        with db.write_batch() as writes:
            writes[1] = row

    yield "batch", batch
    yield (
        "dictionary",
        lambda: siltstone.Dictionary.build(str(db.path) + ".dict", {1: row}, keys="int", values=db.value_codec),
    )


def wrong_rows(numpy):
    """Codecs, and rows that do not fit."""
    floats = numpy.array([0.9, -0.7], dtype=numpy.float32)
    yield from [
        ("int8[2]", row) for row in (floats, [0.5, 1.0], [1.0, 2.0], [300, 0], numpy.array([0, -129]), [2**70, 0])
    ]
    yield from [("uint8[2]", row) for row in ([-1, 0], numpy.array([256, 0], dtype=numpy.uint16))]
    yield from [("uint64[2]", row) for row in ([-1, 0], numpy.array([-1, 0], dtype=numpy.int8), [2**64, 0])]
    yield from [("int64[2]", row) for row in ([2**63, 0], numpy.array([2**63, 0], dtype=numpy.uint64), [numpy.nan, 1])]
    dates = numpy.array(["2026-01-01", "2026-01-02"], dtype="M8[D]")
    yield from [
        ("int64[2]", row)
        for row in (dates, dates - dates[0], [datetime.date(2026, 1, 1)] * 2, ["1", "2"], [b"1", b"2"])
    ]
    yield from [
        ("float64[2]", row)
        for row in ([1 + 2j, 0], dates, ["1.5", "2"], [2**53 + 1, 0], [None, 1.0], [decimal.Decimal(1)] * 2)
    ]
    yield from [("float32[2]", row) for row in ([1e300, 0], [16_777_217, 0], numpy.array([1j, 0]))]
    yield from [("float16[2]", row) for row in ([70_000.0, 0], [70_000, 0], floats * 1e6)]
    yield from [("complex64[2]", row) for row in ([1e300, 0], ["1j", "1"])]
    yield from [("bool[2]", row) for row in ([1, 0], [1.0, 0.0], ["True", ""])]
    masked = numpy.ma.array([1, 2], mask=[False, True])
    yield from [
        ("int64[2]", masked),
        ("float64[2]", masked),
        ("int64[1,2]", [masked]),
        ("float64[2]", [1.0, numpy.ma.masked]),
    ]
    yield from [("int8[2]", row) for row in ([1], [[1, 2]], 1, [1, 2, 3], [], numpy.zeros((2, 0)))]


def test_rows_that_do_not_fit_the_codec_are_refused_wherever_they_are_put(path):
    numpy = pytest.importorskip("numpy")
    for number, (codec, row) in enumerate(wrong_rows(numpy)):
        with siltstone.open(f"{path}{number}", keys="int", values=codec) as db:
            for name, put in puts(db, numpy.array([1]), row):
                with pytest.raises((siltstone.SettingError, TypeError, OverflowError, ValueError)):
                    put()
                    pytest.fail(f"{name} stored {row!r} as {codec}")
            assert not db, codec
        assert not os.path.exists(f"{path}{number}.dict")


def test_rows_that_fit_are_converted(path):
    numpy = pytest.importorskip("numpy")
    rows = [
        ("int8[2]", [127, -128]),
        ("int8[2]", numpy.array([True, False])),
        ("uint64[2]", [2**64 - 1, 0]),
        ("int64[2]", numpy.array([5, 6], dtype=numpy.uint64)),
        ("float32[2]", [0.1, 1e-60]),
        ("float32[2]", [numpy.nan, -numpy.inf]),
        ("float32[2]", [16_777_216, -1]),
        ("float64[2]", numpy.array([1.5, 2.5], dtype=">f4")),
        ("complex128[2]", [1, 2.5]),
        ("bool[2]", [True, False]),
        ("int16[2]", numpy.ma.array([1, 2], mask=[False, False])),
    ]
    for number, (codec, row) in enumerate(rows):
        item = numpy.dtype(codec.partition("[")[0])
        with siltstone.open(f"{path}{number}", keys="int", values=codec) as db:
            for name, put in puts(db, numpy.array([1]), row):
                stored = put()[1] if name == "dictionary" else (put(), db[1])[1]
                assert numpy.array_equal(stored, numpy.array(row, dtype=item), equal_nan=item.kind in "fc"), (
                    codec,
                    name,
                )
                db.clear()


def test_a_codec_has_one_name_and_numbers(path):
    pytest.importorskip("numpy")
    with siltstone.open(path, keys="int", values="f4[ 2, 3 ]") as db:
        assert db.value_codec == "float32[2,3]"
    with siltstone.open(path, values="single[2,3]") as db:
        assert db.value_codec == "float32[2,3]"
    for codec in ("datetime64[2]", "object[2]", "str[2]", "bytes[2]", "timedelta64[2]"):
        with pytest.raises(siltstone.SettingError):
            siltstone.open(path + "2", values=codec)


def test_strings_of_numpy_lose_their_padding_as_in_numpy(path):
    numpy = pytest.importorskip("numpy")
    names, texts = numpy.array([b"abc", b"defgh"]), numpy.array(["abc", "défgh"])
    with siltstone.open(path) as db:
        assert db.put_many(names, names) == 2 and dict(db) == {b"abc": b"abc", b"defgh": b"defgh"}
        assert db.contains_many(numpy.array([b"abc", b"x", b""], dtype="S9")).tolist() == [True, False, False]
        assert db.insert_many_if_absent(numpy.array([b"abc", b"new"]), names).tolist() == [False, True]
        assert db.get_many(names.tolist()) == db.get_many(list(names)) == [b"abc", b"defgh"]
        db[names[0]] = names[1]
        assert db[b"abc"] == b"defgh"
        for padded in (names[:1], numpy.array(b"abc", dtype="S5"), numpy.array("abc"), numpy.str_("abc"), texts):
            with pytest.raises(TypeError):
                db[padded] = b""
            with pytest.raises(TypeError):
                db[b"key"] = padded
        with pytest.raises(TypeError):
            db.put_many(names, texts)
    with siltstone.open(path + "str", keys="str", values="json") as db:
        assert db.put_many(texts, numpy.array([1, 2])) == 2 and dict(db) == {"abc": 1, "défgh": 2}
        assert db.contains_many(texts).tolist() == [True, True] and db[texts[1]] == 2
        db.put_many(texts, texts)
        assert dict(db) == {"abc": "abc", "défgh": "défgh"}
    with siltstone.open(path + "fixed", fixed=(4, 2)) as db:
        digests = numpy.array([b"ab\0\0", b"a\0b\0"], dtype="S4")
        db.put_many(digests, numpy.array([b"x", b"yz"], dtype="S2"))
        assert dict(db) == {b"ab\0\0": b"x\0", b"a\0b\0": b"yz"} and db.contains_many(digests).all()


def test_an_array_is_encoded_by_the_codec_of_the_database(path):
    numpy = pytest.importorskip("numpy")
    keys = numpy.array([1, 2])
    with siltstone.open(path + "json", keys="int", values="json") as db:
        db.put_many(keys, numpy.array([[1, 2], [3, 4]]))
        assert dict(db) == {1: [1, 2], 2: [3, 4]}
        with pytest.raises(siltstone.SettingError, match="dates"):
            db.put_many(keys, numpy.array(["2026", "2027"], dtype="M8[ns]"))
        with pytest.raises(siltstone.SettingError, match="json"):
            db.get_many(keys)
    with siltstone.open(path + "pickle", keys="int", values="pickle") as db:
        db.put_many(keys, numpy.array([0.5, 1.5]))
        assert dict(db) == {1: 0.5, 2: 1.5}
    with siltstone.open(path + "raw", keys="int") as db:
        db.put_many(keys, numpy.array([b"a", b"bc"], dtype=object))
        assert dict(db) == {1: b"a", 2: b"bc"}
        objects = numpy.array([b"a", 1.5], dtype=object)
        for put in (lambda: db.put_many(keys, objects), lambda: db.__setitem__(1, objects)):
            with pytest.raises(TypeError):
                put()
        with pytest.raises(siltstone.SettingError, match="dimension"):
            db.put_many(numpy.array([[1, 2]]), numpy.array([b"a", b"b"]))
        with pytest.raises(siltstone.SettingError, match="masked"):
            db.put_many(numpy.ma.array(keys, mask=[0, 1]), numpy.array([b"a", b"b"]))
    with siltstone.open(path + "rows", keys="int", values="float32[2]") as db:
        db.put_many(keys, numpy.ones((2, 2)))
        for out in (numpy.zeros((2, 2), dtype=numpy.int32), numpy.zeros((2, 8), dtype=numpy.uint8)):
            with pytest.raises(siltstone.SettingError, match="float32"):
                db.get_many(keys, out=out)


# Keys that no record can have.


def impossible():
    yield "bytes", {}, [object(), "text", 1, None, [], b"", bytes(70_000), bytearray()]
    yield "str", {}, [object(), b"bytes", 1, "", "\ud800", "x" * 70_000]
    yield "int", {}, [object(), "1", 1.5, 2**63, 2**70, -(2**63) - 1]
    yield "uint", {}, [object(), b"1", -1, 2**64]
    yield "bytes", {"fixed": (8, 4)}, [b"short", b"123456789"]
    yield "bytes", {"hashed_keys": True}, [b"1234567"]


@pytest.mark.parametrize(("keys", "settings", "wrong"), list(impossible()))
def test_keys_that_no_record_can_have_are_absent_and_refused_by_writes(path, keys, settings, wrong):
    right = {"bytes": b"12345678", "str": "12345678", "int": 1, "uint": 1}[keys]
    with siltstone.open(path, keys=keys, **settings) as db:
        db[right] = b"1234"
        dictionary = siltstone.Dictionary.build(path + ".dict", db, keys=keys, **{"fixed": None, **settings})
        for key in wrong:
            for store in (db, dictionary):
                assert key not in store and store.get(key) is None and store.get(key, 7) == 7
                assert store.get_many([key, right, key], 0) == [0, b"1234", 0]
                assert store.contains_many([key, right, key]) == [False, True, False]
                with pytest.raises(KeyError) as raised:
                    store[key]
                assert raised.value.args[0] is key and raised.value.__cause__ is not None
            assert db.pop(key, 7) == 7 and db.ttl(key) is None and not db.may_contain(key) and not db.touch(key, 5)
            for remove in (db.pop, db.__delitem__):
                with pytest.raises(KeyError):
                    remove(key)
            writes = [
                lambda: db.__setitem__(key, b"1234"),
                lambda: db.put(key, b"1234"),
                lambda: db.add(key, b"1234"),
                lambda: db.setdefault(key, b"1234"),
                lambda: db.put_many([(key, b"1234")]),
                lambda: db.insert_many_if_absent([(key, b"1234")]),
                lambda: db.compare_and_swap(key, None, b"1234"),
            ]
            for write in writes:
                with pytest.raises((TypeError, OverflowError, ValueError)):
                    write()
        assert dict(db) == {right: b"1234"}


def test_a_buffer_that_is_not_contiguous_may_be_a_key_and_is_not_said_to_be_absent(path):
    with siltstone.open(path) as db:
        db[b"ac"] = b"1"
        with pytest.raises(ValueError, match="contiguous"):
            memoryview(b"abcd")[::2] in db


# Values that cannot be decoded.


@pytest.fixture
def job():
    """An object whose class can no longer be imported when the test runs."""
    module = types.ModuleType("siltstone_plugin")
    sys.modules["siltstone_plugin"] = module
    exec("class Job:\n    pass", module.__dict__)
    made = pickle.dumps(module.Job(), protocol=4)
    del sys.modules["siltstone_plugin"]
    return made


def damaged(path, values, bytes_of_value, engine="silt"):
    """A database with a key "job" whose value has these bytes."""
    with siltstone.open(path, **settings_of(engine)) as db:
        db[b"job"] = bytes_of_value
    return siltstone.open(path, keys="str", values=values)


@pytest.mark.parametrize("engine", ENGINES[:-1])
@pytest.mark.parametrize("values", ["pickle", "json", "float32[4]"])
def test_what_cannot_be_decoded_stays_and_the_error_names_its_key(path, job, values, engine):
    value = {"pickle": job, "json": b'{"a": 1', "float32[4]": b"123"}[values]
    if values == "float32[4]":
        pytest.importorskip("numpy")
    with damaged(path, values, value, engine) as db:
        calls = [
            lambda: db["job"],
            lambda: db.get("job"),
            lambda: db.pop("job"),
            lambda: db.pop("job", None),
            lambda: db.popitem(),
            lambda: db.get_many(["job"]),
            lambda: db.setdefault("job", None),
            lambda: db.compare_and_swap("job", 1, None),
            lambda: list(db.items()),
            lambda: list(db.values()),
            lambda: db == {"job": 1},
        ]
        for call in calls:
            with pytest.raises(siltstone.DecodeError, match="'job'") as raised:
                call()
            assert isinstance(raised.value, ValueError) and raised.value.__cause__ is not None
            assert "delete the key" in raised.value.remedy
        assert list(db) == ["job"] and "job" in db
        dictionary = siltstone.Dictionary.build(path + ".dict", {b"job": value})
        dictionary = siltstone.Dictionary(path + ".dict", keys="str", values=values)
        for call in (lambda: dictionary["job"], lambda: dictionary.get_many(["job"]), lambda: list(dictionary.items())):
            with pytest.raises(siltstone.DecodeError, match="'job'"):
                call()
        del db["job"]
        assert not db


def test_a_key_that_cannot_be_decoded_is_named(path):
    with siltstone.open(path) as db:
        db[b"\xff\xfe"] = b"1"
    with siltstone.open(path, keys="str") as db:
        with pytest.raises(siltstone.DecodeError, match="xff"):
            list(db)
        with pytest.raises(siltstone.DecodeError):
            db.popitem()
        assert len(db) == 1


# Read and write in one step.


def test_compare_and_swap_compares_decoded_values(path):
    words = {str(number) for number in range(2000)} | {number * 64 for number in range(50)}
    with siltstone.open(path + "1", keys="str", values="pickle") as db:
        db["set"], db["dict"] = words, {"b": 2, "a": 1}
        assert db.compare_and_swap("set", db["set"], 1) and db["set"] == 1
        assert db.compare_and_swap("dict", {"a": 1, "b": 2}, 1) and not db.compare_and_swap("dict", 2, 3)
    with siltstone.open(path + "2") as db:
        db[b"x"] = b'{"a": 1, "b": 1.50}'
    with siltstone.open(path + "2", keys="str", values="json") as db:
        assert db.compare_and_swap("x", {"b": 1.5, "a": 1}, 2) and db["x"] == 2
        assert not db.compare_and_swap("none", 1, 2) and not db.compare_and_swap("x", None, 3)
        db["null"] = None
        assert not db.compare_and_swap("null", None, 1)  # None is an absent key
    numpy = pytest.importorskip("numpy")
    with siltstone.open(path + "3", keys="str", values="float32[2]") as db:
        db["a"] = [numpy.nan, 1]
        assert not db.compare_and_swap("a", [1, 1], [2, 2])
        assert db.compare_and_swap("a", db["a"], [2, 2]) and db.compare_and_swap("a", [2, 2], None) and "a" not in db


@pytest.mark.parametrize("engine", ENGINES[:-1])
def test_threads_that_swap_and_pop_lose_and_repeat_nothing(path, engine):
    with siltstone.open(path, keys="str", values="json", **settings_of(engine)) as db:
        db["n"] = {"count": 0}
        db.put_many((f"item {number}", number) for number in range(200))
        taken, counted = [], threading.Barrier(4)

        def work():
            for _ in range(50):
                while not db.compare_and_swap("n", found := db["n"], {"count": found["count"] + 1}):
                    pass
            counted.wait()
            for number in range(0, 200, 2):
                taken.append(db.pop(f"item {number}", None))
            while True:
                try:
                    taken.append(db.popitem()[1])
                except KeyError:
                    break

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert taken.count({"count": 200}) == 1 and not db
        assert sorted(value for value in taken if isinstance(value, int)) == list(range(200))


def test_a_codec_may_use_the_database_while_it_decodes(path):
    with siltstone.open(path, keys="str", values="pickle") as db:
        Reader.database = db
        db["other"], db["reader"] = 5, Reader()
        assert db.compare_and_swap("reader", Reader(), Reader()) and db.pop("reader").seen == 5


class Reader:
    database = None

    def __setstate__(self, state):
        self.seen = self.database["other"]
        self.database["written"] = 1

    def __getstate__(self):
        return {"any": 1}

    def __eq__(self, other):
        return isinstance(other, Reader) and self.database["other"] == 5


def test_setdefault_encodes_only_what_it_puts(path):
    with siltstone.open(path) as db:
        db[b"a"] = b"1"
        assert db.setdefault(b"a") == b"1"
        with pytest.raises(TypeError):
            db.setdefault(b"b")
        assert list(db) == [b"a"]


# Directories of other users.


class Evil:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def everything_that_opens(path, tmp_path):
    """Each call that opens the directory `path`."""
    from siltstone import _shards

    for flag in ("r", "w", "c"):
        yield lambda flag=flag: siltstone.open(path, flag)
        yield lambda flag=flag: siltstone.open(path, flag, keys="str")
        yield lambda flag=flag: siltstone.Database(path, flag)
    yield lambda: _shards.run(path, {}, "get_many", ["config"])
    yield lambda: _shards.run(path, {"keys": "str"}, "stats")


def test_a_directory_does_not_choose_pickle(path, tmp_path):
    folder = tmp_path / "ran"
    with siltstone.open(path) as db:
        db[b"config"] = pickle.dumps(Evil(str(folder)), protocol=4)
    with open(os.path.join(path, "CODECS"), "w") as file:
        json.dump({"version": 1, "keys": "str", "values": "pickle"}, file)
    for call in everything_that_opens(path, tmp_path):
        with pytest.raises(siltstone.UnsupportedError, match='values="pickle"'):
            call()
    assert not folder.exists()
    with pytest.raises(siltstone.SettingError, match="`pickle`"):
        siltstone.open(path, "r", values="json")
    with siltstone.open(path, "r", values="pickle") as db:
        assert db["config"] is None and folder.exists()
        assert pickle.loads(pickle.dumps(db)).value_codec == "pickle"


def test_a_checkpoint_from_elsewhere_does_not_choose_pickle(path, tmp_path):
    pytest.importorskip("fsspec")
    from siltstone import checkpoints

    with siltstone.open(path, keys="str", values="pickle") as db:
        db["a"] = 1
        checkpoints.save(db, (tmp_path / "copy").as_uri())
    checkpoints.load((tmp_path / "copy").as_uri(), tmp_path / "loaded")
    with pytest.raises(siltstone.UnsupportedError):
        siltstone.open(tmp_path / "loaded", "r")
    with siltstone.open(tmp_path / "loaded", "r", values="pickle") as db:
        assert db["a"] == 1


CODECS = [
    '{"version": 1, "values": "os.system"}',
    '{"version": 1, "values": "object[2]"}',
    '{"version": 1, "values": ["pickle"]}',
    '{"version": 1, "values": {"a": 1}, "keys": 3}',
    '{"version": 2, "values": "pickle"}',
    '{"version": 1, "keys": "pickle"}',
    '{"version": 1, "values": "raw", "more": "' + "x" * 10_000 + '"}',
    "[" * 4000,
    "\udcff",
    "",
]


@pytest.mark.parametrize("text", CODECS)
def test_codecs_that_are_damaged_are_an_error(path, text):
    siltstone.open(path, keys="str").close()
    with open(os.path.join(path, "CODECS"), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    for flag in ("r", "c"):
        with pytest.raises((siltstone.CorruptError, siltstone.SettingError)):
            siltstone.open(path, flag)


def test_a_pipe_or_a_link_in_a_directory_is_not_followed(path, tmp_path):
    siltstone.open(path, keys="str").close()
    file = os.path.join(path, "CODECS")
    os.unlink(file)
    os.mkfifo(file)
    with pytest.raises(siltstone.CorruptError, match="not a file"):
        siltstone.open(path, "r")
    os.unlink(file)
    mine = tmp_path / "mine"
    mine.write_text("mine")
    os.symlink(mine, file + ".new")
    with siltstone.open(path, keys="int") as db:
        db[1] = b"x"
    assert mine.read_text() == "mine" and json.load(open(file))["keys"] == "int"
