"""Tables of Arrow, pandas and Polars, in and out."""

import datetime
import decimal
import json
import math
import tracemalloc

import pytest
import siltstone

pyarrow = pytest.importorskip("pyarrow")
from siltstone import arrow  # noqa: E402 - needs pyarrow


def test_tables_of_arrow_go_in_and_out(path):
    table = pyarrow.table({"url": ["a", "b", "c"], "size": [1, 2, 3], "body": ["x", "é", ""]})
    with siltstone.open(path, keys="str", values="json") as db:
        assert arrow.put_table(db, table, "url", "size") == 3
        assert arrow.get_many(db, table.column("url")).to_pylist() == [1, 2, 3]
        back = db.to_arrow(batch_size=2).read_all().sort_by("key")
        assert back.to_pydict() == {"key": ["a", "b", "c"], "value": [1, 2, 3]}
        with pytest.raises(siltstone.SettingError, match="nulls"):
            arrow.put_table(db, pyarrow.table({"url": ["a", None], "size": [1, 2]}), "url", "size")
    with siltstone.open(path + "2") as db:
        assert arrow.put_table(db, table.to_batches()[0], "url", "body") == 3
        assert db[b"b"] == "é".encode()
        assert arrow.get_many(db, pyarrow.array([b"c", b"d"])).to_pylist() == [b"", None]
    with siltstone.open(path + "3", values="json") as db:
        assert db.to_arrow().read_all().num_rows == 0


#: Values of most records, and one that a later batch has.
LATER = [
    (1, 1.5),
    (1, 2**63),
    (1, True),
    (True, 1),
    (1, "1"),
    (1, None),
    (None, 1),
    (1.5, 2**53 + 1),
    ("a", 1),
    ("a", ["a"]),
    ([1], [1.5]),
    ([1], [None, 2]),
    ([], [1]),
    ({"a": 1}, {"a": 1, "b": "only here"}),
    ({"a": 1}, {"a": 1.5}),
    ({"a": 1}, {"b": 1}),
    ({"a": 1}, {}),
    ({"a": 1}, 5),
    ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}),
    ({"a": [{"x": 1}]}, {"a": [{"x": 1}, {"z": None}]}),
    ({"a": None}, {"a": 1}),
]


def is_same(before, after):
    """A field that a value does not have may be null."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() <= after.keys() and all(is_same(before.get(name), after[name]) for name in after)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(is_same, before, after))
    return before == after and isinstance(before, bool) == isinstance(after, bool)


@pytest.mark.parametrize(("most", "last"), LATER)
@pytest.mark.parametrize("batch_size", [50, 1000])
def test_what_comes_out_is_what_went_in_or_an_error(path, most, last, batch_size):
    with siltstone.open(path, keys="int", values="json") as db:
        db.put_many((key, most) for key in range(200))
        odd = list(db)[-1]
        db[odd] = last
        try:
            table = arrow.reader(db, batch_size=batch_size).read_all()
        except siltstone.SettingError as error:
            assert "value_type" in error.remedy if error.remedy else "value_type" in str(error)
        else:
            values = table["value"].to_pylist()
            if table.schema.field("value").metadata == {b"siltstone.values": b"json"}:
                values = map(json.loads, values)
            for key, value in zip(table["key"].to_pylist(), values):
                assert is_same(last if key == odd else most, value), (key, value)
        texts = db.to_arrow(batch_size=batch_size, value_type="json").read_all()
        found = dict(zip(texts["key"].to_pylist(), map(json.loads, texts["value"].to_pylist())))
        assert found == {key: last if key == odd else most for key in range(200)}
        try:
            assert all(
                map(is_same, [last, most], arrow.get_many(db, pyarrow.array([odd, (odd + 1) % 200])).to_pylist())
            )
        except siltstone.SettingError:
            pass


def test_a_type_that_is_stated_is_that_of_all_batches(path):
    with siltstone.open(path, keys="int", values="json") as db:
        db.put_many((key, {"a": key}) for key in range(200))
        db[list(db)[-1]] = {"a": 1.5, "b": "x"}
        kind = pyarrow.struct([("a", pyarrow.float64()), ("b", pyarrow.string())])
        table = db.to_arrow(batch_size=50, value_type=kind).read_all()
        assert table.schema.field("value").type == kind and table["value"].to_pylist()[-1] == {"a": 1.5, "b": "x"}
        with pytest.raises(siltstone.SettingError, match="'b'"):
            db.to_arrow(batch_size=50, value_type=pyarrow.struct([("a", pyarrow.float64())])).read_all()
        with pytest.raises(siltstone.SettingError, match="value_type"):
            db.to_arrow(value_type="text")
    with siltstone.open(path + "2", keys="int") as db, pytest.raises(siltstone.SettingError, match="leave it out"):
        db.to_arrow(value_type=pyarrow.string())


PICKLED = [
    datetime.date(2026, 1, 1),
    datetime.datetime(2026, 1, 1, 1, 2, 3, 4),
    datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
    datetime.timedelta(seconds=1, microseconds=1),
    decimal.Decimal("1.50"),
    b"bytes",
    math.nan,
    -math.inf,
    (1, 2),
]


def test_pickled_values_come_out_as_they_are_or_are_refused(path):
    for number, value in enumerate(PICKLED):
        with siltstone.open(f"{path}{number}", keys="int", values="pickle") as db:
            db[1] = value
            (found,) = db.to_arrow().read_all()["value"].to_pylist()
            assert found == (list(value) if isinstance(value, tuple) else value) or found != found and value != value
    with siltstone.open(path, keys="int", values="pickle") as db:
        for value in (object(), {1, 2}, 1j, [1, "a"], {1: 2}):
            db[1] = value
            with pytest.raises(siltstone.SettingError):
                db.to_arrow().read_all()


@pytest.mark.parametrize("codec", ["float32[3]", "int8[2,2]", "float16[1]", "bool[3]", "uint64[2]", "float64[2,1,2]"])
def test_arrays_are_lists_of_a_fixed_size_of_their_items(path, codec):
    numpy = pytest.importorskip("numpy")
    item, shape = siltstone._codecs.array_shape(codec)
    rows = (numpy.arange(1000 * math.prod(shape)) % 100).reshape(1000, *shape).astype(item)
    with siltstone.open(path, keys="int", values=codec) as db:
        empty = db.to_arrow().read_all()
        db.put_many(numpy.arange(1000), rows)
        table = db.to_arrow(batch_size=300).read_all().sort_by("key")
        assert empty.schema == table.schema
        kind, depth = table.schema.field("value").type, 0
        while pyarrow.types.is_fixed_size_list(kind):
            assert kind.list_size == shape[depth]
            kind, depth = kind.value_type, depth + 1
        assert kind == pyarrow.from_numpy_dtype(item) and depth == len(shape)
        assert numpy.array_equal(numpy.array(table["value"].to_pylist(), dtype=item), rows)
        found = arrow.get_many(db, pyarrow.array([7, 5000, 8]))
        assert found.type == table.schema.field("value").type and found.to_pylist()[1] is None
        assert numpy.array_equal(numpy.array([found[0].as_py(), found[2].as_py()], dtype=item), rows[7:9])
        assert arrow.get_many(db, pyarrow.array([5000])).to_pylist() == [None]
        with siltstone.open(path + "copy", keys="int", values=codec) as copy:
            assert arrow.put_table(copy, table, "key", "value") == 1000 and (copy[7] == rows[7]).all()


def test_complex_numbers_have_no_type_of_arrow(path):
    pytest.importorskip("numpy")
    with siltstone.open(path, keys="int", values="complex64[2]") as db:
        db[1] = [1, 2]
        with pytest.raises(siltstone.UnsupportedError, match="complex64"):
            db.to_arrow()


def columns():
    texts = ["a", "bé"]
    yield pyarrow.array(texts, pyarrow.string_view())
    yield pyarrow.array([text.encode() for text in texts], pyarrow.binary_view())
    yield pyarrow.array(texts, pyarrow.large_string())
    yield pyarrow.array([text.encode() for text in texts], pyarrow.large_binary())
    yield pyarrow.array(texts).dictionary_encode()
    yield pyarrow.array(texts, pyarrow.string_view()).cast(pyarrow.string()).dictionary_encode()
    yield pyarrow.RunEndEncodedArray.from_arrays([1, 2], texts)


@pytest.mark.parametrize("column", list(columns()), ids=lambda column: str(column.type).partition("<")[0])
def test_views_and_dictionaries_are_taken_like_strings(path, column):
    table = pyarrow.table({"k": column, "v": column})
    with siltstone.open(path) as db:
        assert arrow.put_table(db, table, "k", "v") == 2
        assert dict(db) == {b"a": b"a", "bé".encode(): "bé".encode()}
        assert arrow.get_many(db, column).to_pylist() == [b"a", "bé".encode()]
    if "binary" not in str(column.type):
        with siltstone.open(path + "2", keys="str", values="json") as db:
            assert arrow.put_table(db, table, "k", "v") == 2 and dict(db) == {"a": "a", "bé": "bé"}


def test_nulls_of_a_dictionary_are_nulls(path):
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1]), pyarrow.array(["a", None]))
    with siltstone.open(path) as db, pytest.raises(siltstone.SettingError, match="1 nulls"):
        arrow.put_table(db, pyarrow.table({"k": ["a", "b"], "v": column}), "k", "v")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_go_in_as_they_are(path, library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"name": ["a", "b"], "size": [1, 2], "gap": [1.5, None]})
    with siltstone.open(path, keys="str", values="json") as db:
        assert arrow.put_table(db, frame, "name", "size") == 2 and dict(db) == {"a": 1, "b": 2}
        with pytest.raises(siltstone.SettingError, match="nulls"):
            arrow.put_table(db, frame, "name", "gap")
    kinds = frame["name"].astype("category") if library == "pandas" else frame["name"].cast(frames.Categorical)
    kinds = frames.DataFrame({"name": kinds, "size": frame["size"]})
    with siltstone.open(path + "2") as db:
        assert arrow.put_table(db, kinds, "name", "name") == 2 and dict(db) == {b"a": b"a", b"b": b"b"}


MIXED = [1, "a", {"a": 1}, [1], None, 1.5, {"b": {"c": []}}]


def test_json_values_without_a_common_type_come_as_their_text(path):
    with siltstone.open(path, keys="int", values="json") as db:
        db.put_many(enumerate(MIXED))
        table = db.to_arrow().read_all()
        assert table.schema.field("value").metadata == {b"siltstone.values": b"json"}
        found = dict(zip(table["key"].to_pylist(), map(json.loads, table["value"].to_pylist())))
        assert found == dict(enumerate(MIXED))
        assert table.schema == db.to_arrow(value_type="json").schema
        keys = pyarrow.array(range(8))
        with pytest.raises(siltstone.SettingError, match="value_type"):
            arrow.get_many(db, keys)
        assert arrow.get_many(db, keys, value_type="json").to_pylist()[1:3] == ['"a"', '{"a":1}']
        # What a later batch has is an error that says what to do.
        db.put_many((number, {"a": 1}) for number in range(1000))
        db[list(db)[-1]] = "odd"
        with pytest.raises(siltstone.SettingError, match="value_type"):
            db.to_arrow(batch_size=10).read_all()


@pytest.mark.parametrize("keys", ["bytes", "str", "int", "uint"])
@pytest.mark.parametrize("values", ["raw", "json", "pickle", "float32", "float32[2]", "bool"])
def test_every_pair_of_codecs_goes_out_in_batches_and_in_again(path, keys, values):
    numpy = pytest.importorskip("numpy")
    key_of = {"bytes": lambda n: b"%d" % n, "str": lambda n: f"é{n}", "int": lambda n: -n, "uint": lambda n: 2**63 + n}
    value_of = {"raw": lambda n: b"x" * n, "json": str, "pickle": lambda n: n, "float32": float, "bool": lambda n: n % 3 == 0}
    value_of["float32[2]"] = lambda n: numpy.array([n, math.nan if n == 7 else -n], dtype="f4")
    records = {key_of[keys](n): value_of[values](n) for n in range(300)}
    with siltstone.open(path, keys=keys, values=values) as db:
        db.put_many(records)
        batches = list(db.to_arrow(batch_size=70))
        assert [batch.num_rows for batch in batches] == [70, 70, 70, 70, 20]
        table = pyarrow.Table.from_batches(batches)
        table.validate(full=True)
        found = dict(zip(table["key"].to_pylist(), table["value"].to_pylist()))
        assert found.keys() == records.keys()
        assert all(numpy.array_equal(found[key], records[key], equal_nan=values[0] == "f") for key in records)
        some = pyarrow.array(list(records)[:5] + [key_of[keys](5000)], type=table.schema.field("key").type)
        some = arrow.get_many(db, some)
        assert some.type == table.schema.field("value").type and some.null_count == 1 and some[5].as_py() is None
    # Slices of columns, too.
    with siltstone.open(path + "2", keys=keys, values=values) as copy:
        assert arrow.put_table(copy, table.slice(100), "key", "value") == 200
        rest = copy.to_arrow().read_all()
        assert rest.sort_by("key").equals(table.slice(100).combine_chunks().sort_by("key")) or values == "float32[2]"
        assert rest.num_rows == 200
    dictionary = siltstone.Dictionary.build(path + "3", records, keys=keys, values=values)
    assert dictionary.to_arrow().read_all().num_rows == 300


def test_the_memory_of_a_reader_is_that_of_a_few_batches(path):
    numpy = pytest.importorskip("numpy")
    batch_bytes = 1000 * (8 + 256)
    for values, rows in (("float32[64]", numpy.zeros((50_000, 64), dtype="f4")), ("raw", [b"x" * 256] * 50_000)):
        with siltstone.open(path + values, keys="int", values=values) as db:
            db.put_many(zip(range(50_000), rows))
            db.to_arrow().read_next_batch()  # imports
            tracemalloc.start()
            count = sum(batch.num_rows for batch in db.to_arrow(batch_size=1000))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert count == 50_000 and batch_bytes < peak < 4 * batch_bytes, values


def test_a_record_that_is_not_one_of_the_codec_is_named(path):
    with siltstone.open(path) as db:
        db[b"12345678"] = b"\xff"
    for codec in ("json", "float32[4]", "float32", "pickle"):
        with siltstone.open(path, "r", keys="str", values=codec) as db:
            as_text = [lambda: db.to_arrow(value_type="json").read_all()] if codec == "json" else []
            for read in (lambda: db.to_arrow().read_all(), db.to_pandas, *as_text):
                with pytest.raises(siltstone.DecodeError, match="key '12345678'"):
                    read()
    with siltstone.open(path, "r", keys="str", values="raw") as db:
        assert db.to_arrow().read_all()["key"].to_pylist() == ["12345678"]
    with siltstone.open(path) as db:
        db[b"\xfe\xfe"] = b"1"
    for keys in ("str", "int"):
        with siltstone.open(path, "r", keys=keys) as db, pytest.raises(siltstone.DecodeError, match="key b'.xfe.xfe'"):
            db.to_arrow().read_all()


def test_misuse_of_tables_is_named(path):
    table = pyarrow.table({"k": ["a"], "v": ["x"], "w": [1]})
    with siltstone.open(path) as db:
        for arguments, words in [
            ((table, "k", "x"), "no column `x`, or there are two; it has `k`, `v`, `w`"),
            ((table, "x", "v"), "no column `x`"),
            ((table, "k", ["v", "w"]), "several columns are a dict"),
            (({"k": ["a"]}, "k", "v"), "dict is neither a table"),
        ]:
            with pytest.raises(siltstone.SettingError, match=words):
                arrow.put_table(db, *arguments)
        for call in (db.put_many, db.insert_many_if_absent, db.update):
            with pytest.raises(siltstone.SettingError, match="put_table"):
                call(table)
        with pytest.raises(siltstone.SettingError, match="put_table"):
            siltstone.Dictionary.build(path + ".dict", table)
        with pytest.raises(siltstone.SettingError, match="batch_size"):
            db.to_arrow(batch_size=0)
    with siltstone.open(path + "2", keys="str", values="json") as db:
        assert arrow.put_table(db, table, "k", ["v", "w"]) == 1 and db["a"] == {"v": "x", "w": 1}
