"""Cases of other projects: their own functions where a package has them, else the same cases in our words."""

import dbm
import os
import pathlib
import threading
import unittest

import pytest
import siltstone
from conftest import settings_of

# CPython: TestMappingProtocol and TestHashMappingProtocol of test.mapping_tests, without what only a dict can do.


@pytest.fixture(params=["silt", "flashkey", "bloomstore"])
def empty(request, path):
    """Makes empty databases of one engine."""
    opened = []

    def make(records=(), **more):
        opened.append(siltstone.open(f"{path}{len(opened)}", keys="str", values="pickle", engine=request.param))
        opened[-1].update(records, **more)
        return opened[-1]

    yield make
    for db in opened:
        db.close()


def test_mapping_protocol_reads(empty):
    db = empty({"a": 1, "b": 2})
    assert db and not empty() and bool(empty()) is False and bool(db) is True
    assert "a" in db.keys() and "c" not in db.keys() and "a" in db and "c" not in db
    assert len(db) == 2 and list(empty({"1": 2}).items()) == [("1", 2)] and list(empty({"1": 2}).values()) == [2]
    assert db.get("c") is None and db.get("c", 3) == 3 and db.get("a") == db.get("a", 3) == 1
    for call in (
        db.__contains__,
        db.__getitem__,
        db.get,
        db.pop,
        lambda: db.get(None, None, None),
        lambda: db.clear(None),
    ):
        with pytest.raises(TypeError):
            call()
    assert db == {"a": 1, "b": 2} and db != {"a": 1} and empty() == {} and empty({"a": 1}) != empty({"a": 2})
    assert empty({"a": 1}) == empty({"a": 1}) and not db == 1
    assert hash(db) if hasattr(db, "__hash__") and db.__hash__ else True


def test_mapping_protocol_update(empty):
    db = empty()
    db.update({"1": 100})
    db.update({"2": 20})
    db.update({"1": 1, "2": 2, "3": 3})
    db.update()
    assert db == {"1": 1, "2": 2, "3": 3}
    db = empty([("x", 100), ("y", 20)], x=1, y=2)
    assert db == {"x": 1, "y": 2}
    db.update(db.items())
    db.update(empty({"z": 3}))
    db.update(iter([("w", 4)]))
    assert db == {"x": 1, "y": 2, "z": 3, "w": 4}

    class WithKeys:
        def keys(self):
            return ["1", "2"]

        def __getitem__(self, key):
            return int(key)

    db.clear()
    db.update(WithKeys())
    assert db == {"1": 1, "2": 2}
    with pytest.raises((TypeError, AttributeError)):
        db.update(None)
    with pytest.raises(ValueError):
        db.update([(1, 2, 3)])
    with pytest.raises((TypeError, ValueError)):
        db.update(42)

    class Wrong(Exception):
        pass

    def failing():
        yield "a", 1
        raise Wrong

    with pytest.raises(Wrong):
        db.update(failing())


def test_mapping_protocol_removes(empty):
    db = empty({"a": 1})
    assert db.setdefault("key0") is None and db.setdefault("key0") is None
    db.setdefault("key", []).append(3)
    assert db["key"] == []  # a value is a copy, as in a shelf
    assert db.setdefault("key", 7) == [] and db.pop("key") == []
    with pytest.raises(KeyError):
        db.pop("key")
    assert db.pop("key", 5) == 5 and db.pop("a") == 1 and db.pop("key0") is None
    with pytest.raises(KeyError):
        db.popitem()
    with pytest.raises(TypeError):
        db.popitem(42)
    for size in range(5):
        db.update((str(number), number) for number in range(size))
        assert sorted(db.popitem() for _ in range(size)) == [(str(number), number) for number in range(size)] and not db
    with pytest.raises(KeyError):
        del db["none"]


# CPython: AnyDBMTestCase of test.test_dbm.

WORDS = {b"a": b"Python:", b"b": b"Programming", b"c": b"the", b"d": b"way", b"f": b"Guido", b"g": b"intended"}


def test_dbm_cases(path, tmp_path):
    for wrong in (path, os.fsencode(path), pathlib.Path(path)):
        with pytest.raises(dbm.error):
            siltstone.open(wrong, "r")
    with siltstone.open(path, "c") as db:
        assert list(db.keys()) == []
        db.update(WORDS)
    with siltstone.open(path, "c") as db:
        db[b"g"] = b"indented"
        assert db.setdefault(b"xxx", b"foo") == b"foo" == db[b"xxx"]
        db[b"empty"] = b""
        assert b"empty" in db and db[b"empty"] == db.get(b"empty") == db.setdefault(b"empty") == b""
    with siltstone.open(os.fsencode(path), "r") as db:
        assert sorted(db.keys()) == sorted([*WORDS, b"xxx", b"empty"])
        assert db.get(b"a") == WORDS[b"a"] and db.get(b"none", b"foo") == b"foo" and db.get(b"none") is None
        with pytest.raises(KeyError):
            db[b"none"]
        with pytest.raises(dbm.error):
            db[b"a"] = b"1"
    with siltstone.open(pathlib.Path(path), "n") as db:
        assert len(db) == 0
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(dbm.error):
        siltstone.open(file, "n")
    assert issubclass(siltstone.Error, dbm.error[0])


# zict, which is installed with Dask.


@pytest.mark.parametrize("engine", ["silt", "flashkey", "flashstore", "bloomstore"])
def test_checks_of_zict(path, engine):
    checks = pytest.importorskip("zict.tests.utils_test")
    settings = {"keys": "str", **settings_of(engine)}
    with siltstone.open(path, **settings) as db:
        checks.check_mapping(db)
        db.clear()
        checks.check_empty_mapping(db)
        checks.check_bad_key_types(db, has_del=True)
        checks.stress_test_mapping_updates(db)
        db.clear()
        checks.check_closing(db)
    with siltstone.open(path + "2", **settings) as db:
        checks.check_bad_value_types(db)


def test_zict_buffers_over_a_database(path):
    zict = pytest.importorskip("zict")
    with siltstone.open(path, keys="str", values="pickle") as db:
        buffer = zict.Buffer({}, db, n=100, weight=lambda key, value: 1)
        buffer.update({str(number): number for number in range(1000)})
        assert len(db) == 900 and sorted(buffer.values()) == list(range(1000))
        function = zict.Func(str, int, db)
        function["x"] = 5
        assert db["x"] == "5" and function["x"] == 5


# zarr 2.


@pytest.fixture(scope="module")
def store_tests():
    return pytest.importorskip("zarr.tests.test_storage", reason="needs zarr 2 (make test-python-all)").StoreTests


def test_stores_of_zarr(store_tests, tmp_path):
    storage = pytest.importorskip("zarr.storage")
    opened = []

    class Store(store_tests):
        def create_store(self, **more):
            opened.append(siltstone.open(tmp_path / str(len(opened)), keys="str"))
            return storage.KVStore(opened[-1])

    # A database that is open for writing is not pickled.
    names = [name for name in dir(store_tests) if name.startswith("test_") and name != "test_pickle"]
    skipped = []
    for name in names:
        try:
            getattr(Store(), name)()
        except (unittest.SkipTest, pytest.skip.Exception):
            skipped.append(name)
        except TypeError as error:
            if "dimension_separator_fixture" not in str(error):
                raise
            skipped.append(name)
    assert len(names) - len(skipped) >= 21, skipped
    for db in opened:
        db.close()


def test_an_array_of_zarr_is_kept(tmp_path):
    zarr = pytest.importorskip("zarr", minversion="2.18")
    if not hasattr(zarr, "storage") or not hasattr(zarr.storage, "KVStore"):
        pytest.skip("needs zarr 2")
    with siltstone.open(tmp_path / "db", keys="str") as db:
        array = zarr.open(zarr.storage.KVStore(db), mode="w", shape=(100, 100), chunks=(10, 10), dtype="i4")
        array[:] = 7
    with siltstone.open(tmp_path / "db", "r") as db:
        assert (zarr.open(zarr.storage.KVStore(db), mode="r")[:] == 7).all()


# diskcache: concurrent use of counters and of add.


def test_counters_of_threads_lose_no_increment(path):
    with siltstone.open(path, keys="str", values="json") as db:
        added = []

        def work():
            for number in range(100):
                db.incr("n")
                if db.add(str(number), 1):
                    added.append(number)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert db["n"] == 800 and sorted(added) == list(range(100))
