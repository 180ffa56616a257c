"""The interface of mappings: CPython's own tests, `shelve`, and `dbm`'s flags."""

import collections.abc
import dbm
import shelve

import pytest
import siltstone

mapping_tests = pytest.importorskip("test.mapping_tests", reason="this CPython has no package `test`")


class TestMappingOfCPython(mapping_tests.BasicTestMappingProtocol):
    """Keys are strings, as in a shelf, and values are pickled."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.tmp_path = tmp_path
        self.databases = []
        yield
        for database in self.databases:
            database.close()

    def _reference(self):
        return {"key1": "value1", "key2": 2, "key3": (1, 2, 3)}

    def _empty_mapping(self):
        path = self.tmp_path / str(len(self.databases))
        self.databases.append(siltstone.open(path, keys="str", values="pickle"))
        return self.databases[-1]


class TestMappingOfAnOrderedEngine(TestMappingOfCPython):
    """The same with FlashKey."""

    def _empty_mapping(self):
        path = self.tmp_path / str(len(self.databases))
        settings = {"engine": "flashkey", "ordered": True}
        self.databases.append(siltstone.open(path, keys="str", values="pickle", **settings))
        return self.databases[-1]


class TestShelf(mapping_tests.BasicTestMappingProtocol):
    """A shelf over a database of bytes."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.tmp_path = tmp_path
        self.shelves = []
        yield
        for shelf in self.shelves:
            shelf.close()

    def _reference(self):
        return {"key1": "value1", "key2": 2, "key3": (1, 2, 3)}

    def _empty_mapping(self):
        path = self.tmp_path / str(len(self.shelves))
        self.shelves.append(shelve.Shelf(siltstone.open(path)))
        return self.shelves[-1]


def test_a_database_is_a_mutable_mapping(path):
    with siltstone.open(path) as db:
        assert isinstance(db, collections.abc.MutableMapping)
        assert not db and len(db) == 0
        db[b"a"] = b"1"
        assert db and len(db) == 1 and b"a" in db
        assert db.setdefault(b"a", b"2") == b"1" and db.setdefault(b"b", b"2") == b"2"
        assert db == {b"a": b"1", b"b": b"2"} and db != {b"a": b"1"}
        assert set(db.keys()) == {b"a", b"b"} and (b"a", b"1") in db.items() and b"2" in db.values()
        assert db.pop(b"a") == b"1" and db.pop(b"a", None) is None
        with pytest.raises(KeyError):
            db.pop(b"a")
        with pytest.raises(KeyError):
            del db[b"a"]
        db.clear()
        assert list(db) == []
    with pytest.raises(siltstone.ClosedError):
        db[b"a"]


def test_iteration_reads_a_snapshot(path):
    with siltstone.open(path, keys="int") as db:
        db.put_many((number, b"old") for number in range(1000))
        items = iter(db.items())
        next(items)
        db.put_many((number, b"new") for number in range(2000))
        seen = list(items)
        assert len(seen) == 999 and {value for _, value in seen} == {b"old"}
        assert len(db) == 2000


def test_the_flags_are_those_of_dbm(path):
    with pytest.raises(dbm.error):
        siltstone.open(path, "r")
    with pytest.raises(FileNotFoundError):
        siltstone.open(path, "w")
    with siltstone.open(path) as db:
        db[b"a"] = b"1"
    with siltstone.open(path, "w") as db:
        assert db[b"a"] == b"1"
    with siltstone.open(path, "r") as db, siltstone.open(path, "r") as other:
        assert db[b"a"] == other[b"a"] == b"1"
        with pytest.raises(siltstone.ReadOnlyError):
            db[b"a"] = b"2"
    with siltstone.open(path, "n") as db:
        assert b"a" not in db
    with pytest.raises(siltstone.SettingError):
        siltstone.open(path, "x")


def test_a_new_database_removes_only_the_files_of_the_old_one(path, tmp_path):
    with siltstone.open(path, keys="str") as db:
        db["a"] = b"1"
        with pytest.raises(siltstone.LockedError):
            siltstone.open(path, "n")
        assert db["a"] == b"1"
    note = tmp_path / "db" / "note.txt"
    note.write_text("mine")
    with pytest.raises(siltstone.NotADatabaseError):
        siltstone.open(path, "n")
    assert note.read_text() == "mine"


@pytest.mark.parametrize("flag", ["r", "w", "c", "n"])
def test_a_file_is_no_database_and_stays(tmp_path, flag):
    note = tmp_path / "note.txt"
    note.write_text("mine")
    with pytest.raises(siltstone.NotADatabaseError, match="this is a file, but a database is a directory"):
        siltstone.open(note, flag)
    with pytest.raises(siltstone.NotADatabaseError, match="not a dictionary: it is a directory"):
        siltstone.Dictionary(tmp_path)
    assert note.read_text() == "mine"
