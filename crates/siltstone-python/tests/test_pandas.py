"""DataFrames of pandas, in and out."""

import datetime
import math

import pytest
import siltstone

pandas = pytest.importorskip("pandas")
numpy = pytest.importorskip("numpy")
from siltstone.pandas import put_frame, to_frame  # noqa: E402 - needs pandas


@pytest.fixture
def users():
    """Rows of several types, by number."""
    columns = {"name": ["Ada", "Grace", "é"], "born": [1815, 1906, 2000], "score": [1.5, -2.0, 0.1], "is_on": [True, False, True]}
    return pandas.DataFrame(columns, index=pandas.Index([17, 18, -1], name="key"))


def test_rows_are_dicts_by_the_index_and_come_back(path, users):
    with siltstone.open(path + "mixed", keys="int", values="json") as db:
        db.update({1: 2**53 + 1, 2: 0.5, 3: 2})
        assert db.to_pandas()["value"].to_dict() == {1: 2**53 + 1, 2: 0.5, 3: 2}
    with siltstone.open(path, keys="int", values="json") as db:
        assert put_frame(db, users) == 3
        assert db[17] == {"name": "Ada", "born": 1815, "score": 1.5, "is_on": True}
        pandas.testing.assert_frame_equal(db.to_pandas().loc[users.index], users, check_index_type=False)
    with siltstone.open(path + "2", keys="str", values="json") as db:
        assert put_frame(db, users, "name") == 3
        assert db["é"] == {"born": 2000, "score": 0.1, "is_on": True}
        assert put_frame(db, users, "name", ["born"]) == 3 and db["Ada"] == {"born": 1815}
        assert put_frame(db, users, key="name", value="born") == 3 and dict(db) == {"Ada": 1815, "Grace": 1906, "é": 2000}
        assert to_frame(db)["value"].to_dict() == dict(db) and to_frame(db)["value"].dtype == numpy.int64
        assert put_frame(db, users.set_index("name")["score"]) == 3 and db["Ada"] == 1.5
        assert put_frame(db, users.iloc[:0], "name") == 0
    with siltstone.open(path + "3") as db:
        assert put_frame(db, users, "name", "name") == 3 and db["é".encode()] == "é".encode()
        assert db.to_pandas()["value"][b"Ada"] == b"Ada"


@pytest.mark.parametrize("keys", ["int", "uint", "str", "bytes"])
@pytest.mark.parametrize("values", ["float32[3]", "float32", "int64", "int8[2,2]", "bool[1]"])
def test_numbers_are_rows_of_columns_and_come_back(path, keys, values):
    item, shape = siltstone._codecs.array_shape(values)
    rows = (numpy.arange(40_000 * math.prod(shape)) % 100).reshape(40_000, *shape).astype(item)
    names = {"str": [str(n) for n in range(40_000)], "bytes": [b"%d" % n for n in range(40_000)]}
    index = pandas.Index(names.get(keys, numpy.arange(40_000)), name="key")
    if len(shape) == 1:
        frame = pandas.DataFrame(rows, index=index)
    else:
        frame = pandas.DataFrame({"value": list(rows) if shape else rows}, index=index)
    with siltstone.open(path, keys=keys, values=values) as db:
        assert put_frame(db, frame, value=None if len(shape) == 1 else "value") == 40_000
        assert numpy.array_equal(db[index[7]], rows[7])
        back = db.to_pandas()
        assert back.index.name == "key" and len(back) == 40_000
        back = back.loc[index]
        if len(shape) == 2:
            assert numpy.array_equal(numpy.stack(back["value"].tolist()), rows)
        else:
            pandas.testing.assert_frame_equal(back, frame, check_index_type=False)
    with siltstone.open(path + "2", keys=keys, values=values) as db:
        assert len(db.to_pandas()) == 0


def test_what_is_missing_in_a_dict_is_none_and_stays_missing(path):
    big = 2**60 + 1
    frame = pandas.DataFrame({"a": pandas.array([big, None], dtype="Int64"), "b": [1.5, None], "c": ["x", None]}, index=[1, 2])
    with siltstone.open(path, keys="int", values="json") as db:
        put_frame(db, frame)
        assert db[1] == {"a": big, "b": 1.5, "c": "x"} and db[2] == {"a": None, "b": None, "c": None}
        db[3] = {"a": 1}
        back = db.to_pandas().sort_index()
        assert back["a"].tolist()[0] == big and back["a"].dtype == "Int64" and back["a"].isna().tolist() == [False, True, False]
        assert back["b"].dtype == numpy.float64 and back["b"].isna().tolist() == [False, True, True]
        db[4] = [1, 2]
        assert db.to_pandas()["value"][4] == [1, 2]


def test_floats_that_are_missing_are_numbers_of_a_codec_of_floats(path):
    frame = pandas.DataFrame({"x": [1.5, math.nan], "y": [2.5, 3.5]})
    with siltstone.open(path, keys="int", values="float32[2]") as db:
        put_frame(db, frame)
        assert math.isnan(db[1][0]) and db[1][1] == 3.5
    with siltstone.open(path + "2", keys="int", values="float64") as db:
        put_frame(db, frame, value="x")
        assert math.isnan(db[1]) and db[0] == 1.5


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_columns_of_nullable_types_are_numbers(path, backend):
    if backend == "pyarrow":
        pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"k": [1, 2], "n": [3, 4], "x": [1.5, None], "b": [True, False]})
    frame = frame.convert_dtypes(dtype_backend=backend)
    with siltstone.open(path, keys="int", values="float64[3]") as db:
        assert put_frame(db, frame, "k") == 2
        assert db[1].tolist() == [3, 1.5, 1] and math.isnan(db[2][1])
    with siltstone.open(path + "2", keys="int", values="int64") as db:
        assert put_frame(db, frame, "k", "n") == 2 and db[2] == 4
    with siltstone.open(path + "3", keys="int", values="json") as db:
        assert put_frame(db, frame, "k") == 2 and db[2] == {"n": 4, "x": None, "b": False}


def test_no_number_changes_because_of_another_column(path):
    frame = pandas.DataFrame({"n": [2**60 + 1], "x": [0.5]})
    with siltstone.open(path, keys="int", values="float64[2]") as db:
        with pytest.raises(siltstone.SettingError, match="exactly"):
            put_frame(db, frame)
        assert put_frame(db, frame.assign(n=2**60)) == 1 and db[0].tolist() == [2**60, 0.5]


def test_values_of_other_types_are_pickled(path):
    day = pandas.Timestamp("2026-01-01")
    with siltstone.open(path, keys="int", values="pickle") as db:
        put_frame(db, pandas.DataFrame({"day": [day], "pair": [(1, 2)]}))
        assert db[0] == {"day": day, "pair": (1, 2)}


def test_an_expiry_applies_to_all_rows(path, users):
    with siltstone.open(path, keys="int", values="json") as db:
        put_frame(db, users, expire=datetime.timedelta(hours=1), durability="synced")
        assert all(3590 < db.ttl(key) <= 3600 for key in users.index)


def test_misuse_of_a_frame_is_named(path, users):
    twice = pandas.DataFrame([[1, 2]], columns=["a", "a"])
    levels = pandas.DataFrame({"v": [1]}, index=pandas.MultiIndex.from_tuples([(1, 2)]))
    dates = pandas.DataFrame({"when": pandas.to_datetime(["2026-01-01"])})
    gaps = pandas.DataFrame({"k": ["a", None], "v": [1, 2], "w": [1.5, None]})
    json = siltstone.open(path, keys="str", values="json")
    rows = siltstone.open(path + "2", keys="int", values="float32[3]")
    numbers = siltstone.open(path + "3", keys="int", values="int64")
    raw = siltstone.open(path + "4")
    for store, frame, arguments, words in [
        (json, users, {"key": "nam"}, "no column `nam`; it has `name`, `born`"),
        (json, users, {"key": "name", "value": ["born", "x"]}, "no column `x`"),
        (json, twice, {"value": "a"}, "several `a`"),
        (json, levels, {}, "several levels"),
        (json, dates.assign(k="a"), {"key": "k"}, "column `when` has the type datetime64.*astype"),
        (json, gaps, {"key": "k"}, "column `k` has 1 missing items"),
        (json, gaps.assign(k="a"), {"key": "k", "value": "w"}, "column `w` has 1 missing items"),
        (json, pandas.DataFrame({1: [1]}, index=["a"]), {}, "name that is no text"),
        (rows, users, {}, "4 columns, but the values are `float32.3.`"),
        (rows, users, {"value": ["name", "born", "score"]}, "column `name` has the type"),
        (numbers, gaps.drop(columns="k"), {"value": "w"}, "column `w` has 1 missing items"),
        (numbers, users, {"value": "score"}, "float64 do not fit the codec `int64`"),
        (raw, users, {"key": "name"}, "several columns are a dict"),
        (json, users["name"], {"key": "name"}, "a Series has an index"),
        (json, [1, 2], {}, "list is no DataFrame"),
    ]:
        with pytest.raises(siltstone.SettingError, match=words):
            put_frame(store, frame, **arguments)
        assert not store, words
    for call in (json.put_many, json.insert_many_if_absent, json.update):
        with pytest.raises(siltstone.SettingError, match="siltstone.pandas.put_frame"):
            call(users)
    with pytest.raises(siltstone.SettingError, match="siltstone.pandas.put_frame"):
        siltstone.Dictionary.build(path + ".dict", users)
    assert json.put_many(pandas.Series({"a": 1})) == 1
    with pytest.raises(TypeError):
        put_frame(json, users)  # the keys are numbers
    for store in (json, rows, numbers, raw):
        store.close()


def test_a_dictionary_is_a_frame_as_well(path, users):
    records = dict(zip(users.index.tolist(), users.to_dict("records")))
    dictionary = siltstone.Dictionary.build(path, records, keys="int", values="json")
    pandas.testing.assert_frame_equal(dictionary.to_pandas().loc[users.index], users, check_index_type=False)
