"""What ends: closed databases and batches, directories, standard descriptors; and the settings that the manual names."""

import builtins
import inspect
import os
import pathlib
import pickle
import re
import subprocess
import sys

import pytest
import siltstone
from conftest import FLASHSTORE, settings_of

ROOT = pathlib.Path(__file__).parents[3]
ENGINES = ["silt", "flashkey", "flashstore", "bloomstore", "mica"]


def iterators(db):
    yield iter(db)
    yield iter(db.keys())
    yield iter(db.values())
    yield iter(db.items())
    if "ordered" in db.stats()["settings"] and db.stats()["settings"]["ordered"] == "true":
        yield db.range()
        yield db.range(1, 900, keys_only=True)
        yield db.range(reverse=True)


@pytest.mark.parametrize("engine", [*ENGINES, "ordered"])
def test_iterators_of_a_closed_database_raise_closed_error(path, engine):
    settings = {"engine": "flashkey", "ordered": True} if engine == "ordered" else settings_of(engine)
    if engine == "mica":
        settings["memory_budget"] = 4 << 20
    db = siltstone.open(path, keys="int", **settings)
    db.put_many((number, b"x") for number in range(1000))
    fresh, begun, ended = list(iterators(db)), list(iterators(db)), list(iterators(db))
    for records in begun:
        for _ in range(5):
            next(records)
    for records in ended:
        list(records)
    keys, batch = db.keys(), db.write_batch()
    batch[1] = b"y"
    db.close()
    for records in fresh + begun:
        for _ in range(2):
            with pytest.raises(siltstone.ClosedError):
                next(records)
    assert [list(records) for records in ended] == [[]] * len(ended)
    calls = [
        lambda: list(keys),
        lambda: len(keys),
        lambda: 1 in db,
        lambda: db.get(1),
        lambda: db.get_many([1]),
        lambda: db.put_many([(1, b"")]),
        lambda: db.delete_prefix(b"x") if db.key_codec == "bytes" else db.clear(),
        lambda: batch.commit(),
        lambda: db.write_batch().commit(),
        lambda: db.changes(),
        lambda: db.approximate_len(),
        lambda: bool(db),
        lambda: db.checkpoint(path + ".copy"),
        lambda: db.popitem(),
        lambda: db.compare_and_swap(1, b"x", b"y"),
    ]
    for number, call in enumerate(calls):
        with pytest.raises((siltstone.ClosedError, siltstone.SettingError) if number == 9 else siltstone.ClosedError):
            call()
            pytest.fail(f"call {number}")
    db.close()
    assert not os.path.exists(path + ".copy") or not os.listdir(path + ".copy")


def test_changes_after_close_raise_closed_error(path):
    db = siltstone.open(path, keys="str", change_feed=1 << 20)
    _, position = db.changes()
    db.close()
    with pytest.raises(siltstone.ClosedError):
        db.changes(position)


def test_a_batch_that_cannot_be_committed_keeps_its_writes(path):
    db = siltstone.open(path, fixed=(1, 1))
    batch = db.write_batch()
    batch[b"a"] = b"1"
    batch[b"b"] = b"too long"
    for _ in range(2):
        with pytest.raises(siltstone.RecordError):
            batch.commit()
        assert len(batch) == 2 and b"a" not in db
    batch.clear()
    batch[b"a"] = b"1"
    batch.commit()
    assert len(batch) == 0 and db[b"a"] == b"1"


def test_a_batch_takes_no_writes_after_its_with(path):
    with siltstone.open(path) as db:
        with db.write_batch() as batch:
            batch[b"a"] = b"1"
        for call in (
            lambda: batch.put(b"b", b"2"),
            lambda: batch.delete(b"a"),
            batch.commit,
            lambda: batch.__setitem__(b"b", b"2"),
        ):
            with pytest.raises(siltstone.ClosedError, match="with"):
                call()
        with pytest.raises(RuntimeError), db.write_batch() as failed:
            failed[b"c"] = b"3"
            raise RuntimeError
        with pytest.raises(siltstone.ClosedError):
            failed[b"c"] = b"3"
        free = db.write_batch()
        for number in (b"1", b"2"):
            free[number] = number
            free.commit()
        assert dict(db) == {b"a": b"1", b"1": b"1", b"2": b"2"}


@pytest.mark.parametrize("settings", [{}, {"engine": "flashkey", "ordered": True}])
def test_an_empty_prefix_is_refused_and_names_the_call_for_all(path, settings):
    for keys, empties in (("str", [""]), ("bytes", [b"", bytearray(), memoryview(b"")])):
        with siltstone.open(path + keys, keys=keys, **settings) as db:
            key = "a" if keys == "str" else b"a"
            db[key] = b"1"
            for empty in empties:
                with pytest.raises(siltstone.SettingError, match=r"clear\(\)"):
                    db.delete_prefix(empty)
            for nothing in (None, 0, object()):
                with pytest.raises(TypeError):
                    db.delete_prefix(nothing)
            with pytest.raises(TypeError):
                db.delete_prefix()
            db.delete_many([])
            assert list(db) == [key]
            db.clear()
            assert not db


def test_the_mode_is_that_of_the_directories(path, tmp_path):
    before = os.umask(0)
    try:
        siltstone.open(path, "c", 0o600).close()
        assert os.stat(path).st_mode & 0o777 == 0o700
        disk = str(tmp_path / "slow")
        settings = {"engine": "flashstore", "disk": disk, "flash_bytes": 4 << 20, "segment_bytes": 128 << 10}
        siltstone.open(path + "2", "n", 0o640, **settings).close()
        assert os.stat(path + "2").st_mode & 0o777 == os.stat(disk).st_mode & 0o777 == 0o750
        with pytest.raises(siltstone.SettingError):
            siltstone.open(path + "3", "c", 0o600, no_such_setting=1)
        assert not os.path.exists(path + "3")
    finally:
        os.umask(before)


TIERED = {"keys": "int", "engine": "flashstore", "disk": "slow", "flash_bytes": 4 << 20, "segment_bytes": 128 << 10}


def test_a_new_database_over_a_disk_removes_the_disk_of_the_old_one(path, tmp_path):
    for disk in ("slow", str(tmp_path / "elsewhere")):
        for _ in range(2):
            with siltstone.open(path + "db", "n", **{**TIERED, "disk": disk}) as db:
                assert len(db) == 0
                db.put_many((key, b"x" * 500) for key in range(20_000))
        siltstone.open(path + "db", "n", keys="int").close()
        assert not os.path.exists(tmp_path / "elsewhere")


def test_a_handle_with_a_disk_is_pickled_with_it(path, tmp_path):
    with siltstone.open(path, **TIERED) as db:
        db.put_many((key, b"x" * 500) for key in range(20_000))
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        with siltstone.open("db", "r", memory_budget=64 << 20) as reader:
            sent = pickle.dumps(reader)
    finally:
        os.chdir(here)
    with pickle.loads(sent) as copy:
        assert len(copy) == 20_000 and copy.verify()["damage"] == []


def test_shards_have_directories_of_their_own_on_one_disk(tmp_path):
    from siltstone._shards import path_of, run

    settings = {**TIERED, "disk": str(tmp_path / "disk")}
    paths = [path_of(str(tmp_path / "flash"), shard, 2) for shard in range(2)]
    for number, path in enumerate(paths):
        run(path, settings, "put_many", [(key, b"%d" % number * 500) for key in range(20_000)])
    assert [run(path, settings, "get_many", [7])[0][:1] for path in paths] == [b"0", b"1"]
    for path in paths:
        run(path, settings, "close")
    assert len(os.listdir(tmp_path / "disk")) == 2


SMALL = {
    "cache": {"cache": True, "flash_bytes": 4 << 20, "segment_bytes": 128 << 10},
    "disk": FLASHSTORE,
    "far disk": {**FLASHSTORE, "disk": None},
}


@pytest.mark.parametrize("kind", ["silt", "flashkey", "bloomstore", "cache", "disk", "far disk", "change feed"])
def test_a_checkpoint_elsewhere_has_all_records(path, tmp_path, kind):
    fsspec = pytest.importorskip("fsspec")
    from siltstone import checkpoints

    engine = "flashstore" if kind in ("cache", "disk", "far disk") else "silt" if kind == "change feed" else kind
    settings = dict(SMALL.get(kind, {}), **({"change_feed": 1 << 20} if kind == "change feed" else {}))
    if kind == "far disk":
        settings["disk"] = str(tmp_path / "far")
    # A cache loses no record as long as all fit.
    count = 4_000 if kind == "cache" else 20_000
    with siltstone.open(path, keys="int", engine=engine, **settings) as db:
        db.put_many((key, b"x" * 500) for key in range(count))
        for number, url in enumerate((f"memory://{tmp_path}/one", (tmp_path / "copy").as_uri())):
            checkpoints.save(db, url)
            checkpoints.load(url, tmp_path / f"restored {number}")
    for number in range(2):
        for flag in ("r", "w"):
            with siltstone.open(tmp_path / f"restored {number}", flag) as db:
                assert len(db) == count and db[7] == b"x" * 500 and db.verify()["damage"] == []
    del fsspec


def test_a_checkpoint_refuses_what_is_neither_file_nor_folder(path, tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    from siltstone import checkpoints

    with siltstone.open(path) as db:
        checkpoint = type(db).checkpoint

        def with_link(self, target):
            checkpoint(self, target)
            os.symlink("/etc/hostname", os.path.join(target, "link"))

        monkeypatch.setattr(type(db), "checkpoint", with_link)
        with pytest.raises(siltstone.Error, match="neither"):
            checkpoints.save(db, (tmp_path / "copy").as_uri())
    assert not os.path.exists(tmp_path / "copy")


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "a/../../evil", "", ".", "a//b", "..", "a\\..\\b", "C:evil", "a\0b"]
)
def test_a_list_of_a_checkpoint_names_nothing_outside_of_it(path, tmp_path, name):
    fsspec = pytest.importorskip("fsspec")
    from siltstone import checkpoints
    import json

    url = f"memory://{tmp_path}/theirs"
    memory = fsspec.filesystem("memory")
    for text in (
        json.dumps({"version": 1, "files": {name: 4}}),
        "[",
        "{}",
        '{"version": 2, "files": {}}',
        '{"version": 1, "files": [1]}',
    ):
        memory.pipe(f"{tmp_path}/theirs/{checkpoints.LIST}", text.encode())
        memory.pipe(f"{tmp_path}/theirs/evil", b"evil")
        with pytest.raises(siltstone.NotADatabaseError):
            checkpoints.load(url, path)
        assert not os.path.exists(path) and not os.path.exists(tmp_path / "evil")


DAEMON = """
import os, sys
for descriptor in {closed}: os.close(descriptor)
import siltstone
first = siltstone.open("first", keys="int", **{settings})
first[1] = b"x"
second = siltstone.open("second", keys="int", **{settings})
third = siltstone.Dictionary.build("third.dict", {{b"a": b"1"}})
first.close()
names = []
for block in range(3):
    second.put_many((block * 3000 + key, os.urandom(60)) for key in range(3000))
    second.compact()
    for descriptor in (0, 1, 2):
        try:
            names.append(os.readlink(f"/proc/self/fd/{{descriptor}}"))
            os.write(descriptor, b"warning of another library\\n" * 20)
        except OSError:
            pass
second.close()
found = [name for name in names if "second" in name or "first" in name or "third" in name]
with siltstone.open("second", "r") as db:
    right = len(db) == 9000 and db.verify()["damage"] == []
os._exit(0 if right and not found else 1)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("engine", ["silt", "flashkey", "flashstore", "bloomstore"])
@pytest.mark.parametrize("closed", ["(0, 1, 2)", "(2,)", "(0,)"])
def test_no_file_of_a_database_has_a_standard_descriptor(tmp_path, engine, closed):
    settings = settings_of(engine)
    program = DAEMON.format(closed=closed, settings=settings)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
    )
    assert done.returncode == 0


def test_files_of_the_package_itself_have_no_standard_descriptor_either():
    program = """
import os
for descriptor in (0, 2): os.close(descriptor)
from siltstone._codecs import StandardDescriptors
with StandardDescriptors():
    with open("/dev/null") as file:
        right = file.fileno() > 2
with open("/dev/null") as file:
    os._exit(0 if right and file.fileno() == 0 else 1)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


# The manual.

PAGES = ["PYTHON.md", *(f"python/{name}.md" for name in ("codecs", "costs", "jupyter", "pandas", "processes", "pytorch"))]


def documented():
    """The names of settings and arguments in the prose of the manual, with a value where one is stated."""
    text = "\n".join((ROOT / "docs" / page).read_text() for page in PAGES)
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    found = dict.fromkeys(re.findall(r"(?:settings?|and|or) `([a-z_]+)`(?=[;,. ])", prose))
    methods = {*dir(siltstone.Database), *dir(siltstone.Dictionary)}
    found = {name: None for name in found if name not in methods and ("_" in name or name in ("cache", "disk"))}
    for code in re.findall(r"`([^`\n]*=[^`]*)`", prose):
        for name, value in re.findall(r"\b([a-z_]+)=((?:\([^)]*\)|\"[^\"]*\"|[0-9]+ << [0-9]+|[\w.]+)?)", code):
            if len(name) > 1:  # no argument of an example
                found[name] = value or found.get(name)
    return found


def test_every_setting_that_the_manual_names_exists(tmp_path):
    for name in ("pandas", "pyarrow"):
        pytest.importorskip(name)
    known = set()
    for function in (
        siltstone.open,
        siltstone.Database,
        siltstone.Dictionary.build,
        *vars(siltstone.Database).values(),
    ):
        if callable(function):
            known |= set(inspect.signature(function).parameters)
    from siltstone import arrow
    from siltstone.pandas import put_frame

    for function in (siltstone.Database.get_many, arrow.reader, arrow.put_table, put_frame):
        known |= set(inspect.signature(function).parameters)
    known |= {"prefix", "durability", "expire", "shuffle"}  # the last of a DataLoader
    names = documented()
    assert {
        "fixed",
        "memory_budget",
        "filter_last_store",
        "access",
        "change_feed",
        "cache",
        "flash_bytes",
    } <= names.keys()
    for number, (name, value) in enumerate(names.items()):
        errors = []
        if name in known - {"engine", "keys", "values", "mode"}:
            continue
        for engine in ENGINES:
            settings = {name: value for name, value in SMALL["cache"].items() if engine == "flashstore"}
            if value is not None:
                try:
                    settings[name] = eval(value, {})
                except Exception:  # noqa: BLE001 - a value of the text, such as a type
                    continue
            else:
                settings[name] = {"disk": "slow"}.get(name, settings.get(name, 8))
            settings.setdefault("engine", engine)
            try:
                siltstone.open(tmp_path / f"{number} {engine}", **settings).close()
                break
            except (siltstone.Error, TypeError) as error:
                errors.append(str(error))
        else:
            pytest.fail(f"{name}={value}: {errors}")


def test_every_exception_is_in_the_manual():
    text = (ROOT / "docs/PYTHON.md").read_text()
    for name in siltstone.__all__:
        if name.endswith("Error"):
            assert f"`{name}`" in text, name
    others = set(re.findall(r"`(\w+Error)`", text)) - set(siltstone.__all__)
    assert all(hasattr(builtins, name) for name in others), others
