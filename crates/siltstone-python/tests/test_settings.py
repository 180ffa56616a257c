"""What is stated: names of codecs, sizes, durations, and names that are misspelt."""

import datetime
import json
import os

import pytest
import siltstone


def numpy_names():
    numpy = pytest.importorskip("numpy")
    yield "float32[64]", ["f4[64]", "<f4[64]", "float32[ 64 ]", "single[64]", numpy.dtype(("f4", 64))]
    yield "float32", ["f4", ">f4", numpy.float32, numpy.dtype("f4"), numpy.dtype(">f4")]
    yield "int8[2,3]", ["i1[2,3]", "int8[2, 3]", numpy.dtype((numpy.int8, (2, 3)))]
    yield "float64", [float, "double", "f8", numpy.float64]
    yield "uint64", ["u8", numpy.uint64]
    yield "int64", [int, "i8", numpy.int64]
    yield "bool", [bool, "bool", numpy.bool_]
    yield "raw", [bytes, "raw"]


def test_all_names_of_a_codec_of_values_are_one(tmp_path):
    for number, (name, others) in enumerate(numpy_names()):
        for at, other in enumerate(others):
            path = str(tmp_path / f"{number}-{at}")
            with siltstone.open(path, keys="int", values=other) as db:
                assert db.value_codec == name, other
            assert json.loads((tmp_path / f"{number}-{at}" / "CODECS").read_text())["values"] == name
            for again in (name, *others, None):
                with siltstone.open(path, values=again) as db:
                    assert db.value_codec == name
            dictionary = siltstone.Dictionary.build(path + ".dict", {}, keys="int", values=other)
            assert dictionary.value_codec == name


def test_all_names_of_a_codec_of_keys_are_one(tmp_path):
    numpy = pytest.importorskip("numpy")
    names = {
        "int": [int, "int64", "i8", numpy.int64, numpy.dtype("i8"), numpy.dtype(">i8")],
        "uint": ["uint64", "u8", numpy.uint64, numpy.dtype("u8")],
        "str": [str],
        "bytes": [bytes],
    }
    for name, others in names.items():
        for other in others:
            path = str(tmp_path / f"{name}-{others.index(other)}")
            with siltstone.open(path, keys=other, values="json") as db:
                assert db.key_codec == name
            for again in (name, *others, None):
                with siltstone.open(path, "r", keys=again) as db:
                    assert db.key_codec == name
            assert siltstone.Dictionary.build(path + ".dict", {}, keys=other).key_codec == name
    for wrong in (numpy.int32, float, object, numpy.dtype(("i8", 2)), "int128", 5, ["int"]):
        with pytest.raises(siltstone.SettingError, match="^keys: there is no codec"):
            siltstone.open(str(tmp_path / "none"), keys=wrong)
    for wrong in (str, object, dict, 5, "f4,f4", "M8[s]", numpy.dtype([("a", "f4")]), "f4[]", "int7[3]", "text"):
        with pytest.raises(siltstone.SettingError, match="^values"):
            siltstone.open(str(tmp_path / "none"), values=wrong)
    assert not os.path.exists(tmp_path / "none")


def test_a_database_with_an_old_name_of_its_codec_opens(path):
    numpy = pytest.importorskip("numpy")
    with siltstone.open(path, keys="int", values="float32[4]") as db:
        db[1] = [1, 2, 3, 4]
    file = os.path.join(path, "CODECS")
    with open(file, "w") as text:
        text.write('{"version": 1, "keys": "int", "values": "f4[4]"}\n')
    for stated in (None, "f4[4]", "float32[4]", numpy.dtype(("f4", 4))):
        with siltstone.open(path, values=stated) as db:
            assert db.value_codec == "float32[4]" and db[1].tolist() == [1, 2, 3, 4]
            rows, found = db.get_many(numpy.array([1, 2]))
            assert rows.shape == (2, 4) and found.tolist() == [True, False]


def test_numbers_are_values_by_themselves(path):
    numpy = pytest.importorskip("numpy")
    with siltstone.open(path, keys="int", values="float32") as db:
        assert db.stats()["fixed"] == (8, 4)
        db[1] = 1.5
        db.put_many({2: 2, 3: numpy.float64(3.5)})
        assert db.put_many(numpy.arange(4, 9), numpy.arange(5) / 2) == 5
        assert db[1] == 1.5 and isinstance(db[1], numpy.float32) and db.get_many([2, 3, 99]) == [2, 3.5, None]
        rows, found = db.get_many(numpy.array([1, 8, 99]))
        assert rows.tolist() == [1.5, 2, 0] and rows.dtype == numpy.float32 and found.tolist() == [True, True, False]
        for wrong in ([1.0], "1", None, 1j, 2**30 + 1):
            with pytest.raises(siltstone.SettingError):
                db[1] = wrong
        assert db.compare_and_swap(1, 1.5, 2.5) and db.pop(1) == 2.5
        with pytest.raises(siltstone.UnsupportedError, match="incr"):
            db.incr(2)


def test_sizes_can_be_text(path):
    sizes = {"memory_budget": "16 MiB", "block_bytes": "4KiB", "change_feed": "1MiB", "convert_bytes_per_s": "1GiB"}
    with siltstone.open(path, **sizes) as db:
        assert db.stats()["settings"]["convert_bytes_per_s"] == str(1 << 30)
        db.set_memory_budget("32MiB")
        db.set_memory_budget(None)
        for wrong in ("32 megabytes", "", 1.5, -1, b"1", "99999999999TiB"):
            with pytest.raises(siltstone.SettingError, match="^memory_budget: .*64MiB"):
                db.set_memory_budget(wrong)
    options = {"memory_bytes": "1MiB", "block_bytes": "8KiB"}
    assert siltstone.Dictionary.build(path + ".dict", {b"a": b"1"}, **options)[b"a"] == b"1"
    for name in options:
        with pytest.raises(siltstone.SettingError, match=f"^{name}: .*64MiB"):
            siltstone.Dictionary.build(path + ".dict", {}, **{name: "much"})
    with pytest.raises(siltstone.SettingError, match="^memory_budget: .*64MiB"):
        siltstone.open(path, memory_budget="much")


def test_durations_can_be_timedeltas_wherever_a_record_gets_one(path):
    numpy = pytest.importorskip("numpy")
    hour = datetime.timedelta(hours=1)
    with siltstone.open(path, keys="int", values="json", expiring=True) as db:
        db.put(1, 0, expire=hour)
        db.set(2, 0, hour)
        db.add(3, 0, expire=hour)
        db.put_many({4: 0}, expire=hour)
        db.insert_many_if_absent({5: 0}, expire=hour)
        db.put_many(numpy.array([6]), numpy.array([0]), expire=hour)
        db.insert_many_if_absent(numpy.array([7]), numpy.array([0]), expire=hour)
        db[8] = 0
        assert db.touch(8, hour)
        with db.write_batch() as batch:
            batch.put(9, 0, expire=hour)
        assert all(3590 < db.ttl(key) <= 3600 for key in range(1, 10))
        for wrong in ("1h", datetime.datetime(2026, 1, 1), [1]):
            with pytest.raises(TypeError, match="no duration; give seconds or a timedelta"):
                db.put(1, 0, expire=wrong)
        with pytest.raises(siltstone.SettingError, match="not above 0"):
            db.put(1, 0, expire=-hour)
    with siltstone.open(path + "2", keys="str", values="json") as db:

        @db.memoize(expire=hour)
        def answer():
            return 42

        assert answer() == 42 and 3590 < db.ttl(answer.key_of()) <= 3600


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("memory_bugdet", "memory_budget"),
        ("memory", "memory_budget"),
        ("filter_last_stores", "filter_last_store"),
        ("threads", "background_threads"),
        ("hashed_key", "hashed_keys"),
        ("key", "keys"),
        ("value", "values"),
        ("flags", "flag"),
    ],
)
def test_a_misspelt_setting_names_the_one_that_was_meant(path, name, meant):
    for flag in ("c", "n"):
        with pytest.raises(siltstone.SettingError) as raised:
            siltstone.open(path, flag, **{name: "1"})
        assert str(raised.value).endswith(f"`{name}`; did you mean `{meant}`?") and not os.path.exists(path)
    with pytest.raises(siltstone.SettingError, match="it has merge_ratio, .*memory_budget"):
        siltstone.open(path, quux=1)
