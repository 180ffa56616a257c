"""Arrays of NumPy and tables of Arrow, in and out."""

import pytest
import siltstone

numpy = pytest.importorskip("numpy")


def test_rows_of_a_type_come_back_as_they_were(path):
    keys = numpy.arange(40_000, dtype=numpy.uint64) * 3
    rows = numpy.random.default_rng(1).random((40_000, 4), dtype=numpy.float32)
    with siltstone.open(path, keys="uint", values="float32[4]") as db:
        assert db.put_many(keys, rows) == 40_000
        assert db.stats()["fixed"] == (8, 16)
        wanted = numpy.array([3, 4, 6, 3 * 39_999], dtype=numpy.uint64)
        values, found = db.get_many(wanted)
        assert found.tolist() == [True, False, True, True] and values.dtype == numpy.float32
        assert (values[[0, 2, 3]] == rows[[1, 2, 39_999]]).all() and not values[1].any()
        assert (db.get_many(keys)[0] == rows).all()
        assert (db[3] == rows[1]).all() and db.contains_many(wanted).tolist() == found.tolist()
        out = numpy.full((4, 4), 7, dtype=numpy.float32)
        same, _ = db.get_many(wanted, out=out)
        assert same is out and (out[1] == 7).all() and (out[0] == rows[1]).all()
        inserted = db.insert_many_if_absent(numpy.array([3, 4]), numpy.zeros((2, 4)))
        assert inserted.tolist() == [False, True] and (db[4] == 0).all()
    with siltstone.open(path) as db:
        assert (db[6] == rows[2]).all()


def test_keys_of_other_integer_types_are_converted(path):
    with siltstone.open(path, keys="int", values="int16[1]") as db:
        db.put_many(numpy.array([-5, 5], dtype=numpy.int32), numpy.array([[1], [2]]))
        assert db[-5] == 1 and db[numpy.int8(5)] == 2
        values, found = db.get_many(numpy.array([5, -5, 0], dtype=numpy.int8)[::-1])
        assert values.ravel().tolist() == [0, 1, 2] and found.tolist() == [False, True, True]
        too_large = numpy.array([2**63, 5], dtype=numpy.uint64)
        values, found = db.get_many(too_large)
        assert values.ravel().tolist() == [0, 2] and found.tolist() == [False, True]
        assert db.contains_many(too_large).tolist() == [False, True]
        with pytest.raises(siltstone.SettingError, match="2\\*\\*63"):
            db.put_many(too_large, numpy.zeros((2, 1), dtype=numpy.int16))
        with pytest.raises(siltstone.SettingError, match="int64"):
            db.get_many(numpy.array([0.5]))
    with siltstone.open(path + "2", keys="uint", values="int16[1]") as db:
        with pytest.raises(siltstone.SettingError, match="negative"):
            db.put_many(numpy.array([-1]), numpy.array([[1]]))


def test_rows_of_bytes_are_keys_and_values(path):
    keys = numpy.frombuffer(bytes(range(200)), dtype=numpy.uint8).reshape(10, 20)
    with siltstone.open(path, fixed=(20, 4)) as db:
        db.put_many(keys, numpy.arange(10, dtype="<u4"))
        values, found = db.get_many(keys[::2])
        assert values.view("<u4").ravel().tolist() == [0, 2, 4, 6, 8] and found.all()
        names = numpy.array([bytes(range(20)), b"x" * 20])
        assert db.contains_many(names).tolist() == [True, False]


def test_arrays_that_do_not_fit_are_refused(path):
    keys = numpy.arange(3, dtype=numpy.uint64)
    with siltstone.open(path, keys="uint", values="float32[4]") as db:
        with pytest.raises(siltstone.SettingError, match="rows"):
            db.put_many(keys, numpy.zeros((2, 4)))
        with pytest.raises(siltstone.SettingError, match="float32"):
            db.put_many(keys, numpy.zeros((3, 5)))
        db.put_many(keys, numpy.zeros((3, 4)))
        with pytest.raises(siltstone.SettingError, match="16 bytes"):
            db.get_many(keys, out=numpy.zeros((3, 4), dtype=numpy.float64))
        with pytest.raises(siltstone.SettingError, match="3 keys"):
            db.get_many(keys, out=numpy.zeros((2, 4), dtype=numpy.float32))
        with pytest.raises((ValueError, BufferError)):
            db.get_many(keys, out=numpy.zeros((4, 3), dtype=numpy.float32).T)
        frozen = numpy.zeros((3, 4), dtype=numpy.float32)
        frozen.flags.writeable = False
        with pytest.raises((ValueError, BufferError)):
            db.get_many(keys, out=frozen)
        with pytest.raises(siltstone.SettingError, match="reshape"):
            db[1] = [1, 2]
    with siltstone.open(path + "2", keys="uint") as db, pytest.raises(siltstone.SettingError, match="fixed="):
        db.get_many(keys)
    with pytest.raises(siltstone.SettingError, match="no type"):
        siltstone.open(path + "3", values="float33[4]")


def test_empty_arrays_are_no_error(path):
    with siltstone.open(path, keys="uint", values="float32[4]") as db:
        none = numpy.zeros(0, dtype=numpy.uint64)
        assert db.put_many(none, numpy.zeros((0, 4))) == 0
        values, found = db.get_many(none)
        assert values.shape == (0, 4) and found.shape == (0,) and db.contains_many(none).shape == (0,)


def test_rows_without_bytes_are_no_keys(path):
    keys, values = numpy.zeros((3, 0), dtype=numpy.uint8), numpy.ones((3, 4), dtype=numpy.uint8)
    with siltstone.open(path) as db:
        for write in (db.put_many, db.insert_many_if_absent):
            with pytest.raises(siltstone.RecordError, match="empty"):
                write(keys, values)
        assert not db and db.contains_many(keys).tolist() == [False] * 3
        assert not db.get_many(keys, out=numpy.zeros_like(values))[1].any()
        assert db.put_many(keys[:0], values[:0]) == 0


def test_a_dictionary_returns_arrays(path):
    rows = {number: numpy.full(3, number, dtype=numpy.float64) for number in range(1000)}
    dictionary = siltstone.Dictionary.build(path, rows, keys="int", values="float64[3]", fixed=(8, 24))
    values, found = dictionary.get_many(numpy.array([7, 2000]))
    assert values.tolist() == [[7, 7, 7], [0, 0, 0]] and found.tolist() == [True, False]


def test_values_without_bytes_are_found(path):
    keys = numpy.arange(20_000 * 16, dtype=numpy.uint8).reshape(20_000, 16)
    keys[:, :4] = numpy.arange(20_000, dtype=numpy.uint32).view(numpy.uint8).reshape(20_000, 4)
    with siltstone.open(path, fixed=(16, 0)) as seen:
        seen.put_many(keys[::2].copy(), numpy.zeros((10_000, 0), "u1"))
        for found in (seen.get_many(keys)[1], seen.contains_many(keys)):
            assert found.tolist() == [True, False] * 10_000
    siltstone.Dictionary.build(path + ".dict", ((bytes(key), b"") for key in keys[::2]), fixed=(16, 0))
    seen = siltstone.Dictionary(path + ".dict")
    assert seen.get_many(keys)[1].tolist() == [True, False] * 10_000


def test_lists_are_not_given_one_type(path):
    keys = numpy.array([1, 2])
    with siltstone.open(path, keys="int", values="json") as db:
        for values in (["a", 1], [True, 2], [2**60 + 1, 0.5], [None, {"a": [1]}]):
            db.put_many(keys, values)
            assert [db[1], db[2]] == values and type(db[1]) is type(values[0])
    with siltstone.open(path + "2", keys="int") as db:
        db.put_many(keys, [b"a\0", b"b"])
        assert db.insert_many_if_absent(numpy.array([2, 3]), [b"c", b"d\0\0"]).tolist() == [False, True]
        assert [db[1], db[2], db[3]] == [b"a\0", b"b", b"d\0\0"]
    with siltstone.open(path + "3") as db:
        db.put_many([b"k\0", b"k"], numpy.array([[1, 2], [3, 4]], dtype=numpy.uint8))
        assert dict(db) == {b"k\0": b"\1\2", b"k": b"\3\4"}
        out = numpy.zeros((2, 2), dtype=numpy.uint8)
        assert db.get_many([b"k", b"k\0"], out=out)[1].all() and out.tolist() == [[3, 4], [1, 2]]
    with siltstone.open(path + "4", fixed=(1, 4)) as db:
        with pytest.raises(siltstone.RecordError):
            db.put_many([b"a", b"b"], [b"abcd", b"ab"])


def test_rows_may_be_read_over_their_keys(path):
    keys = numpy.random.default_rng(1).integers(0, 256, (2_000, 16), dtype=numpy.uint8)
    with siltstone.open(path, fixed=(16, 16)) as db:
        db.put_many(keys, keys[::-1].copy())
        rows = keys.copy()
        values, found = db.get_many(rows, out=rows)
        assert values is rows and found.all() and (rows == keys[::-1]).all()


def test_arrays_of_long_rows_are_written_in_batches(path):
    rows = numpy.zeros((40, 1 << 20), dtype=numpy.uint8)
    rows[:, 0] = numpy.arange(40)
    batches = []
    with siltstone.open(path, keys="int", values="raw") as db:
        assert db.put_many(numpy.arange(40), rows, progress=lambda done, total: batches.append(done)) == 40
        assert len(batches) > 2 and batches[-1] == 40 and all(db[number][0] == number for number in range(40))

