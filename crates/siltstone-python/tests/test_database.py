"""Codecs, settings, errors, batches, expiry, order."""

import array
import datetime
import itertools
import json
import math
import os
import random
import time

import pytest
import siltstone


def test_any_buffer_is_a_key_or_a_value(path):
    with siltstone.open(path) as db:
        for buffer in (b"key", bytearray(b"key"), memoryview(b"key"), array.array("B", b"key")):
            db[buffer] = buffer
            assert db[buffer] == b"key" and buffer in db
        assert len(db) == 1
        with pytest.raises(ValueError, match="contiguous"):
            db[memoryview(b"abcd")[::2]] = b""
        with pytest.raises(TypeError, match="keys=\"str\""):
            db["text"] = b""
        with pytest.raises(TypeError, match="values=\"json\""):
            db[b"key"] = 17


@pytest.mark.parametrize(
    ("codec", "keys"),
    [("str", ["", "é", "x" * 300]), ("int", [-(2**63), -1, 0, 1, 2**63 - 1]), ("uint", [0, 1, 2**64 - 1])],
)
def test_keys_are_encoded_and_decoded(path, codec, keys):
    keys = [key for key in keys if key != ""]
    with siltstone.open(path, keys=codec) as db:
        for key in keys:
            db[key] = b"value"
        assert sorted(db) == sorted(keys)
        for wrong in (1.5, b"bytes"):
            with pytest.raises(TypeError):
                db[wrong] = b"value"
        if codec != "str":
            with pytest.raises(OverflowError):
                db[2**64] = b"value"


@pytest.mark.parametrize("codec", ["json", "pickle"])
def test_values_are_encoded_and_decoded(path, codec):
    values = [None, 1, 1.5, "é", [1, {"a": None}]]
    with siltstone.open(path, keys="int", values=codec) as db:
        db.update(enumerate(values))
        assert [db[number] for number in range(len(values))] == values
        assert db.pop(0) is None and 0 not in db
        assert db.get_many([1, 99], default="absent") == [1, "absent"]


def test_a_database_remembers_its_codecs(path):
    with siltstone.open(path, keys="str", values="json") as db:
        db["a"] = [1]
    with siltstone.open(path) as db:
        assert db["a"] == [1] and (db.key_codec, db.value_codec) == ("str", "json")
    with pytest.raises(siltstone.SettingError, match="leave keys= out"):
        siltstone.open(path, keys="int")
    with siltstone.open(path) as db:
        db.checkpoint(path + ".copy")
        with siltstone.open(path + ".copy", "r") as copy:
            assert copy["a"] == [1]
    with open(os.path.join(path, "CODECS"), "w") as file:
        file.write("{")
    with pytest.raises(siltstone.CorruptError) as raised:
        siltstone.open(path)
    assert raised.value.file.endswith("CODECS")


def test_a_codec_can_be_stated_later(path):
    with siltstone.open(path) as db:
        db["é".encode()] = b"1"
    assert not os.path.exists(os.path.join(path, "CODECS"))
    with siltstone.open(path, keys="str") as db:
        assert db["é"] == b"1"
    with siltstone.open(path, "r") as db:
        assert db["é"] == b"1"


def test_unknown_codecs_and_settings_name_the_known_ones(path):
    for wrong, known in [
        ({"keys": "float"}, "uint"),
        ({"values": "xml"}, "float32"),
        ({"engine": "btree"}, "flashkey"),
        ({"engine": "flashstore"}, "`disk`.*`cache`.*`flashkey`"),
        ({"durability": "always"}, "synced"),
        ({"access": "mapped"}, "direct"),
        ({"no_such_setting": 1}, "merge_ratio"),
    ]:
        with pytest.raises(siltstone.SettingError, match=known):
            siltstone.open(path, **wrong)
        assert not os.path.exists(path)


def test_settings_reach_the_engine(path):
    settings = {"fixed": (8, 4), "hashed_keys": True, "partitions": 4, "filter_last_store": 8}
    with siltstone.open(path, **settings, memory_budget=8 << 20, durability="buffered") as db:
        stats = db.stats()
        assert stats["fixed"] == (8, 4) and stats["hashed_keys"] and stats["partitions"] == 4
        assert stats["settings"]["filter_last_store"] == "8"
        assert "keys='bytes', values='raw', 0 records, open" in repr(db)
        with pytest.raises(siltstone.RecordError) as raised:
            db[b"short"] = b"1234"
        assert "8 bytes" in str(raised.value) and "fixed=" in raised.value.remedy
        assert isinstance(raised.value, ValueError)


def test_sizes_can_be_text_and_wrong_types_name_the_setting(path):
    with siltstone.open(path, memory_budget="16MiB", partitions="2", hashed_keys="true") as db:
        assert db.stats()["partitions"] == 2 and db.stats()["hashed_keys"]
    for wrong in ({"memory_budget": 1.5}, {"memory_budget": "much"}, {"fixed": 8}, {"partitions": []}):
        with pytest.raises((TypeError, siltstone.SettingError), match=next(iter(wrong))):
            siltstone.open(path + "2", **wrong)


def test_errors_have_the_file_and_the_remedy(path):
    with siltstone.open(path) as db:
        db[b"a"] = b"1"
        with pytest.raises(siltstone.LockedError) as raised:
            siltstone.open(path)
        assert str(raised.value.file) == path and "close it" in raised.value.remedy
    for name in ("MANIFEST", "MANIFEST.mirror"):
        with open(os.path.join(path, name), "r+b") as file:
            file.seek(20)
            file.write(b"\xff" * 40)
    with pytest.raises(siltstone.CorruptError) as raised:
        siltstone.open(path)
    assert "MANIFEST" in str(raised.value.file) and isinstance(raised.value.offset, int)


def test_a_batch_is_applied_completely_or_not_at_all(path):
    with siltstone.open(path, keys="str", values="json") as db:
        db["old"] = 1
        with db.write_batch(durability="synced") as batch:
            batch["a"] = 1
            batch.put("b", 2, expire=3600)
            del batch["old"]
            assert len(batch) == 3 and "a" not in db
        assert db == {"a": 1, "b": 2} and db.ttl("b") < 3601
        with pytest.raises(RuntimeError), db.write_batch() as batch:
            batch["c"] = 3
            raise RuntimeError
        assert "c" not in db
        with pytest.raises(siltstone.SettingError):
            db.write_batch(durability="never")


def test_many_keys_are_read_and_written_together(path):
    with siltstone.open(path, keys="int") as db:
        assert db.put_many((number, b"%d" % number) for number in range(25_000)) == 25_000
        assert db.put_many([]) == 0 and db.get_many([]) == []
        found = db.get_many(range(24_998, 25_002), default=b"-")
        assert found == [b"24998", b"24999", b"-", b"-"]
        assert db.contains_many([0, -1]) == [True, False]
        assert db.insert_many_if_absent([(0, b"x"), (-1, b"x"), (-1, b"y")]) == [False, True, False]
        db.delete_many(range(10, 25_000))
        assert len(db) == 11
        with pytest.raises(ValueError, match="pair"):
            db.put_many([1, 2])


@pytest.mark.parametrize("settings", [{}, {"engine": "flashkey", "ordered": True}])
def test_keys_with_a_prefix_are_deleted(path, settings):
    with siltstone.open(path, keys="str", **settings) as db:
        db.put_many((f"user:{number}", b"x") for number in range(3_000))
        db.put_many((f"zone:{number}", b"x") for number in range(7))
        assert db.delete_prefix("user:1") == 1_111
        assert "user:1" not in db and "user:2" in db and len(db) == 1_896
        assert db.delete_prefix("user:", durability="synced") == 1_889
        assert sorted(db) == [f"zone:{number}" for number in range(7)]
        assert db.delete_prefix("none") == 0
        with pytest.raises(siltstone.SettingError):
            db.delete_prefix("zone:", durability="never")
        with pytest.raises(TypeError):
            db.delete_prefix(b"zone:")
        db.clear()
        assert not db


def test_numbers_have_no_prefix_to_delete(path):
    with siltstone.open(path, keys="int") as db:
        db[1] = b"x"
        with pytest.raises(siltstone.SettingError, match="prefix"):
            db.delete_prefix(0)
        db.clear()
        assert len(db) == 0


def test_what_is_inserted_if_absent_has_an_expiry_time_and_a_durability(path):
    numpy = pytest.importorskip("numpy")
    with siltstone.open(path, keys="uint", values="uint8[1]", expiring=True) as db:
        options = {"expire": 1000, "durability": "synced"}
        assert db.add(1, numpy.array([1], "uint8"), **options)
        assert db.insert_many_if_absent([(1, [1]), (2, [2])], **options) == [False, True]
        keys, rows = numpy.array([2, 3], "uint64"), numpy.array([[2], [3]], "uint8")
        assert list(db.insert_many_if_absent(keys, rows, **options)) == [False, True]
        assert all(0 < db.ttl(key) <= 1000 for key in (1, 2, 3))
        # A record that is present keeps its time.
        db.put(4, numpy.array([4], "uint8"))
        assert not db.add(4, numpy.array([5], "uint8"), **options) and math.isinf(db.ttl(4))
        with pytest.raises(ValueError, match="durability"):
            db.add(5, numpy.array([5], "uint8"), durability="soon")


def test_records_expire(path):
    with siltstone.open(path, keys="str") as db:
        db.put("short", b"1", expire=0.05)
        db.set("long", b"2", expire=1000)
        db["ever"] = b"3"
        assert 999 < db.ttl("long") <= 1000 and db.ttl("ever") == math.inf and db.ttl("none") is None
        assert db.touch("ever", 500) and db.ttl("ever") <= 500
        db.set("day", b"", datetime.timedelta(days=1))
        assert 86_399 < db.ttl("day") <= 86_400 and db.touch("day", datetime.timedelta(hours=1)) and db.ttl("day") <= 3600
        with pytest.raises(TypeError, match="expire"):
            db.put("a", b"", expire="1h")
        assert db.touch("long") and db.ttl("long") == math.inf
        assert not db.touch("none", 5)
        deadline = time.monotonic() + 60
        while "short" in db and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "short" not in db and db.add("short", b"4", expire=1000) and not db.add("short", b"5")
        with pytest.raises(siltstone.SettingError):
            db.put("a", b"", expire=-1)


def test_numbers_are_incremented(path):
    with siltstone.open(path, keys="str", values="json") as db:
        assert [db.incr("n"), db.incr("n", 10), db.decr("n"), db["n"]] == [1, 11, 10, 10]
        with pytest.raises(KeyError):
            db.incr("none", default=None)
        db["text"] = "x"
        with pytest.raises(ValueError, match="no whole number"):
            db.incr("text")
        with pytest.raises(OverflowError):
            db.incr("n", 2**63 - 1)
        assert db["n"] == 10


def test_compare_and_swap_replaces_only_what_is_expected(path):
    with siltstone.open(path, keys="str", values="json") as db:
        assert db.compare_and_swap("a", None, [1])
        assert not db.compare_and_swap("a", None, [2])
        assert db.compare_and_swap("a", [1], [2]) and db["a"] == [2]
        assert db.compare_and_swap("a", [2], None) and "a" not in db
        # As a put, it sets the time when the record expires, or that it never does.
        assert db.compare_and_swap("a", None, [1], expire=60, durability="synced") and 59 < db.ttl("a") <= 60
        assert db.compare_and_swap("a", [1], [2], expire=datetime.timedelta(hours=1)) and 3599 < db.ttl("a") <= 3600
        assert db.compare_and_swap("a", [2], [3]) and db.ttl("a") == float("inf")
        for new in ([4], None):
            with pytest.raises(siltstone.SettingError, match="not above 0"):
                db.compare_and_swap("a", [3], new, expire=0)
        with pytest.raises(siltstone.SettingError, match="delete has no expiry time"):
            db.compare_and_swap("a", [3], None, expire=60)


def test_ranges_are_in_key_order(path):
    with siltstone.open(path, keys="int", engine="flashkey", ordered=True) as db:
        db.put_many((number, b"%d" % number) for number in range(-500, 500))
        assert [key for key, _ in db.range(-3, 3)] == [-3, -2, -1, 0, 1, 2]
        assert list(db.range(495, keys_only=True)) == [495, 496, 497, 498, 499]
        assert list(db.range(-500, 0, reverse=True, limit=2)) == [(-1, b"-1"), (-2, b"-2")]
        assert list(db.range(3, 3)) == list(db.range(5, 1)) == [] and len(list(db.range())) == 1000
        with pytest.raises(siltstone.SettingError):
            db.range(prefix=1)
    with siltstone.open(path + "2", keys="str", engine="flashkey", ordered=True) as db:
        db.update({"b/1": b"", "b/2": b"", "a": b"", "c": b""})
        assert list(db.range(prefix="b/", keys_only=True)) == ["b/1", "b/2"]
        with pytest.raises(siltstone.SettingError):
            db.range("a", prefix="b")
    with siltstone.open(path + "3") as db, pytest.raises(siltstone.UnsupportedError, match="flashkey"):
        db.range()


def test_an_iterator_is_a_mebibyte_ahead_at_most(path):
    with siltstone.open(path, keys="int") as db:
        db.put_many((number, random.Random(number).randbytes(256 << 10)) for number in range(64))
        db.compact()

        def bytes_read(records):
            before = db.stats()["read_bytes"]
            assert len(list(itertools.islice(db.values(), records))) == records
            return db.stats()["read_bytes"] - before

        whole = bytes_read(64)
        # By the number of records alone, 63 would be read for 32.
        assert whole >= 16 << 20 and bytes_read(32) < whole * 3 / 4


def test_stats_verify_and_checkpoint(path):
    with siltstone.open(path, keys="int", partitions=2) as db:
        db.put_many((number, b"x" * 50) for number in range(5000))
        db[0] = b"y"
        assert db.verify()["live_records"] == 5000
        db.compact()
        db.sync()
        assert db.approximate_len() == 5000
        calls = []
        report = db.verify(lambda done, total: calls.append((done, total)))
        assert report["damage"] == [] and report["live_records"] == 5000 and calls and calls[-1][0] <= calls[-1][1]
        stats = db.stats()
        assert stats["puts"] == 5001 and stats["ram_bytes"] == sum(stats["ram"].values())
        assert "siltstone_puts_total" in db.prometheus() and json.dumps(stats)
        db.checkpoint(path + ".copy")
        assert db.may_contain(3)
        db.set_memory_budget(16 << 20)
    with siltstone.open(path + ".copy", "r") as copy:
        assert len(copy) == 5000


def test_changes_are_the_keys_written_since_a_position(path):
    with siltstone.open(path, keys="str", values="json", change_feed=1 << 20) as db:
        keys, position = db.changes()
        assert keys == []
        db["a"] = 1
        db.put_many({"b": 2, "c": 3})
        del db["a"]
        keys, after_two = db.changes(position, limit=2)
        assert keys == ["a", "b"] and db.get_many(keys) == [None, 2]
        assert db.changes(after_two)[0] == ["c", "a"]
        with pytest.raises(siltstone.SettingError, match="is not a position"):
            db.changes("yesterday")
    with siltstone.open(path) as db:
        assert db.changes(after_two)[0] == ["c", "a"]
        with pytest.raises(siltstone.ChangesLostError, match="another feed") as lost:
            db.changes("0000000000000007-7")
        assert "read all records" in lost.value.remedy
    with siltstone.open(path + ".none") as db, pytest.raises(siltstone.SettingError, match="no change feed"):
        db.changes()


def test_progress_can_stop_an_opening(path):
    with siltstone.open(path, keys="int") as db:
        db.put_many((number, b"x" * 100) for number in range(20_000))

    def refuse(done, total):
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        siltstone.open(path, progress=refuse)
    with siltstone.open(path) as db:
        assert db[19_999] == b"x" * 100


def test_a_store_in_memory_forgets(path):
    with siltstone.open(path, keys="str", values="json", engine="mica") as db:
        db["a"] = {"b": 1}
        assert db["a"] == {"b": 1}
    with siltstone.open(path, engine="mica") as db:
        assert len(db) == 0
