"""`siltstone.zarr`: the store of zarr 3, and zarr's own tests of stores."""

import asyncio
import doctest
import functools
import inspect
import multiprocessing
import pathlib
import pickle

import pytest
import siltstone

zarr = pytest.importorskip("zarr", minversion="3.1")
import numpy  # noqa: E402
from siltstone.zarr import KEYS_PER_CALL, SiltstoneStore  # noqa: E402
from zarr.core.buffer import cpu, default_buffer_prototype  # noqa: E402
from zarr.testing.store import StoreTests  # noqa: E402

ROOT = pathlib.Path(__file__).parents[3]


def synchronous(tests):
    """Makes the asynchronous tests of a class functions that pytest runs by itself."""
    for name, function in inspect.getmembers(tests, inspect.iscoroutinefunction):
        if name.startswith("test_"):
            wrapped = functools.wraps(function)(lambda *args, own=function, **named: asyncio.run(own(*args, **named)))
            setattr(tests, name, wrapped)
    return tests


@synchronous
class TestSiltstoneStore(StoreTests):
    """zarr's own tests. `get` and `set` do not use the store."""

    store_cls = SiltstoneStore
    buffer_cls = cpu.Buffer

    async def set(self, store, key, value):
        store.database[key] = value.to_bytes()

    async def get(self, store, key):
        return self.buffer_cls.from_bytes(store.database[key])

    @pytest.fixture
    def store_kwargs(self, path):
        return {"path": path}

    @pytest.fixture
    def store(self, open_kwargs):
        return asyncio.run(self.store_cls.open(**open_kwargs))

    @pytest.fixture
    def store_not_open(self, store_kwargs):
        return self.store_cls(**store_kwargs)

    def test_store_repr(self, store, path):
        assert repr(store) == f"SiltstoneStore({path!r}, read_only=False)" and str(store) == f"siltstone://{path}"

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing


async def collect(items):
    return [item async for item in items]


def chunks_of(store):
    return asyncio.run(collect(store.list()))


@pytest.mark.parametrize("settings", [{}, {"engine": "silt"}, {"engine": "bloomstore"}])
def test_arrays_and_groups_come_back(path, settings):
    with SiltstoneStore(path, **settings) as store:
        root = zarr.create_group(store)
        data = numpy.arange(60 * 60, dtype="i4").reshape(60, 60)
        for name in ("a", "b/c"):
            array = root.create_array(name, shape=data.shape, chunks=(10, 10), dtype=data.dtype)
            array[:] = data
        assert sorted(root) == ["a", "b"] and len(chunks_of(store)) == 2 * 36 + 4
    with SiltstoneStore(path, read_only=True) as store:
        root = zarr.open_group(store, mode="r")
        assert (root["a"][:] == data).all() and (root["b/c"][5:7, 20:40] == data[5:7, 20:40]).all()
        assert sorted(name for name, _ in root.members(max_depth=None)) == ["a", "b", "b/c"]
    with SiltstoneStore(path, **settings) as store:
        root = zarr.open_group(store)
        del root["b"]
        assert all(key == "zarr.json" or key.startswith("a/") for key in chunks_of(store))


@pytest.mark.parametrize("settings", [{}, {"engine": "silt"}])
def test_names_of_a_folder_are_listed_once(path, settings):
    keys = ["b", "a/x", "a-/y", "a/z/1", "a0/1", "a0/2", "c/d/e", "ä/1", "c/d0", "c/d"]
    with SiltstoneStore(path, **settings) as store:
        store.database.put_many((key, b"") for key in keys)

        def names(folder):
            return asyncio.run(collect(store.list_dir(folder)))

        assert sorted(names("")) == sorted(names("/")) == ["a", "a-", "a0", "b", "c", "ä"]
        assert sorted(names("a")) == ["x", "z"] and sorted(names("c/")) == ["d", "d0"] and names("c/d") == ["e"]
        assert names("nothing") == names("b") == []
        assert sorted(asyncio.run(collect(store.list_prefix("a/")))) == ["a/x", "a/z/1"]
        if not settings:
            assert asyncio.run(collect(store.list())) == sorted(keys)


def test_more_keys_than_one_call_lists(path):
    count = 2 * KEYS_PER_CALL + 1
    with SiltstoneStore(path) as store:
        store.database.put_many((f"a/{number}", b"") for number in range(count))
        assert len(chunks_of(store)) == count
        assert len(asyncio.run(collect(store.list_dir("a")))) == count
        asyncio.run(store.delete_dir("a"))
        assert chunks_of(store) == []


def test_a_new_database_keeps_the_order_of_keys_and_an_old_one_its_engine(path):
    asyncio.run(SiltstoneStore.open(path)).close()
    with siltstone.open(path, "r") as db:
        assert db.stats()["engine"] == "flashkey" and db.stats()["settings"]["ordered"] == "true"
    siltstone.open(path + "2", keys="str").close()
    with SiltstoneStore(path + "2") as store:
        store.set_sync("a", cpu.Buffer.from_bytes(b"1"))
        assert store.database.stats()["engine"] == "silt"


def test_ranges_of_bytes(path):
    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest

    with SiltstoneStore(path) as store:
        store.set_sync("a", cpu.Buffer.from_bytes(b"0123456789"))
        for request, part in [
            (RangeByteRequest(2, 5), b"234"),
            (RangeByteRequest(8, 50), b"89"),
            (RangeByteRequest(3, 3), b""),
            (OffsetByteRequest(7), b"789"),
            (SuffixByteRequest(3), b"789"),
            (SuffixByteRequest(30), b"0123456789"),
        ]:
            assert store.get_sync("a", byte_range=request).to_bytes() == part, request
        assert asyncio.run(store.get_partial_values(default_buffer_prototype(), [("b", None)])) == [None]


def test_stores_of_a_process_share_the_database(path):
    first, second = SiltstoneStore(path), SiltstoneStore(path)
    first.set_sync("a", cpu.Buffer.from_bytes(b"1"))
    reader = pickle.loads(pickle.dumps(second.with_read_only(True)))
    assert reader.read_only and reader.get_sync("a").to_bytes() == b"1" == second.get_sync("a").to_bytes()
    with pytest.raises(siltstone.SettingError, match="the same ones"):
        SiltstoneStore(path, memory_budget="64MiB").get_sync("a")
    with SiltstoneStore(path + "2", memory_budget="64MiB") as writer, SiltstoneStore(path + "2", read_only=True) as own:
        writer.set_sync("a", cpu.Buffer.from_bytes(b"2"))
        assert own.get_sync("a").to_bytes() == b"2"
    first.close()
    second.close()
    with pytest.raises(siltstone.LockedError):
        siltstone.open(path, keys="str")
    reader.close()
    siltstone.open(path, keys="str").close()


def test_a_store_that_is_collected_closes_its_database(path):
    SiltstoneStore(path).set_sync("a", cpu.Buffer.from_bytes(b"1"))
    with siltstone.open(path, keys="str") as db:
        assert db["a"] == b"1"


def read_in_another_process(store, wanted):
    return store.get_sync(wanted).to_bytes()


def test_a_reader_is_sent_to_other_processes(path):
    with SiltstoneStore(path) as store:
        store.set_sync("a", cpu.Buffer.from_bytes(b"1"))
    reader = SiltstoneStore(path, read_only=True)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(read_in_another_process, (reader, "a")) == b"1" == reader.get_sync("a").to_bytes()
    with SiltstoneStore(path) as writer, pytest.raises(siltstone.LockedError):
        writer.get_sync("a")
    reader.close()
    with SiltstoneStore(path) as writer:
        writer.delete_sync("a")
        with multiprocessing.get_context("spawn").Pool(1) as pool, pytest.raises(siltstone.LockedError, match="check"):
            pool.apply(read_in_another_process, (reader, "a"))


def test_wrong_arguments_are_refused(path):
    with pytest.raises(siltstone.SettingError, match="keys"):
        SiltstoneStore(path, keys="bytes")
    with pytest.raises(siltstone.SettingError, match="unknown"):
        SiltstoneStore(path, unknown=1).get_sync("a")
    with pytest.raises(FileNotFoundError):
        zarr.open(SiltstoneStore(path, read_only=True))
    with SiltstoneStore(path) as store, pytest.raises(TypeError, match="Buffer"):
        store.set_sync("a", b"1")


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(ROOT / "docs/python/zarr.md"), module_relative=False)
    assert result.failed == 0 and result.attempted > 8
