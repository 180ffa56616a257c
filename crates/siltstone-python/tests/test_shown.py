"""What people see: `repr`, tables in notebooks, progress."""

import itertools
import os
import signal
import sys
import types

import pytest
import siltstone
from test_processes import in_child


def test_repr_has_the_engine_the_codecs_and_about_how_many_records(path):
    with siltstone.open(path, keys="int", values="json") as db:
        db.put_many((number, number) for number in range(3000))
        expected = f"<siltstone.Database {path!r}, engine='silt', keys='int', values='json', about "
        assert repr(db).startswith(expected) and repr(db).endswith(" records, open>")
        about = repr(db).removeprefix(expected).partition(" ")[0]
        assert int(about.replace(",", "")) == db.approximate_len()
        assert in_child(lambda: repr(db)).endswith("values='json', of another process>")
    assert repr(db).endswith("values='json', closed>") and str(db) == repr(db)
    with siltstone.open(path, "r") as db:
        assert repr(db).endswith(" records, read only>")
    dictionary = siltstone.Dictionary.build(path + ".dict", {1: 1}, keys="int", values="json")
    assert repr(dictionary) == f"<siltstone.Dictionary {path + '.dict'!r}, keys='int', values='json', 1 records>"


def test_a_notebook_shows_a_table_in_which_everything_is_escaped(tmp_path):
    path = str(tmp_path / "<b>&'\"")
    with siltstone.open(path, keys="int", values="json") as db:
        db[1] = 2
        shown = db._repr_html_()
        assert "<b>" not in shown and "&lt;b&gt;&amp;&#x27;&quot;" in shown
        for row in ("engine", "keys", "values", "records", "on flash", "memory", "state"):
            assert f">{row}</th>" in shown
        assert "about 1<" in shown and " KiB" in shown
    assert ">closed<" in db._repr_html_() and ">memory<" not in db._repr_html_()
    dictionary = siltstone.Dictionary.build(path + ".dict", {1: 1}, keys="int", values="json")
    assert "<b>" not in dictionary._repr_html_() and ">engine<" not in dictionary._repr_html_()


class Bar:
    """A bar as that of tqdm."""

    bars = []

    def __init__(self, **options):
        self.options, self.total, self.n, self.is_closed = options, None, 0, False
        Bar.bars.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_closed = True

    def update(self, more):
        self.n += more

    def refresh(self):
        pass


@pytest.fixture
def bars(monkeypatch):
    """The bars that are made."""
    module = types.ModuleType("tqdm.auto")
    module.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    monkeypatch.setattr(Bar, "bars", [])
    return Bar.bars


def long_calls(path):
    """Calls with progress, by name, and the records or None for bytes."""
    numpy = pytest.importorskip("numpy")
    records = {number: number for number in range(25_000)}
    db = siltstone.open(path, keys="int", values="int64")
    yield lambda progress: db.put_many(records, progress=progress), 25_000
    keys = numpy.arange(25_000)
    yield lambda progress: db.put_many(keys, keys, progress=progress), 25_000
    yield lambda progress: siltstone.Dictionary.build(path + ".d", records, keys=int, values=int, progress=progress), 25_000
    pandas = pytest.importorskip("pandas")
    from siltstone.pandas import put_frame

    yield lambda progress: put_frame(db, pandas.Series(records), progress=progress), 25_000
    pyarrow = pytest.importorskip("pyarrow")
    from siltstone import arrow

    table = pyarrow.table({"key": keys, "value": keys})
    yield lambda progress: arrow.put_table(db, table, "key", "value", progress=progress), 25_000
    db.compact()
    yield lambda progress: db.verify(progress), None
    pytest.importorskip("fsspec")
    from siltstone import checkpoints

    copies = itertools.count()
    yield lambda progress: checkpoints.save(db, f"{path}-copy-{next(copies)}", progress=progress), None
    loaded = itertools.count()
    yield lambda progress: checkpoints.load(f"{path}-copy-0", f"{path}-{next(loaded)}", progress=progress), None
    yield lambda progress: siltstone.Dictionary(path + ".d", keys=int, values=int).verify(progress), None
    db.close()


def test_long_calls_report_what_is_done_and_the_total(path, bars):
    for call, records in long_calls(path):
        reports = []
        call(lambda *report: reports.append(report))
        done = [report[0] for report in reports]
        assert done == sorted(done) and reports[-1][0] == reports[-1][1], reports
        assert {total for _, total in reports} == {records} or records is None
        assert records is None or len(reports) > 1
        call(True)
        bar = bars.pop()
        assert bar.n == bar.total == reports[-1][0] and bar.is_closed and bar.options["desc"]
        assert bar.options["unit"] == ("B" if records is None else " records")
        for none in (None, False):
            call(none)
        with pytest.raises(siltstone.SettingError, match="progress"):
            call("yes")
        with pytest.raises(ZeroDivisionError):
            call(lambda done, total: 1 / 0)


def test_an_opening_can_show_a_bar(path, bars):
    siltstone.open(path, progress=True).close()
    (bar,) = bars
    assert bar.is_closed and bar.options["unit"] == "B"


def test_an_iterator_has_no_total(path):
    with siltstone.open(path, keys="int") as db:
        reports = []
        db.put_many(((number, b"") for number in range(15_000)), progress=lambda *report: reports.append(report))
        assert reports == [(10_000, None), (15_000, None)]


def test_a_bar_without_tqdm_is_an_error_with_a_remedy(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with siltstone.open(path) as db, pytest.raises(siltstone.SettingError, match="install it, or pass a function"):
        db.put_many({b"a": b"1"}, progress=True)


def test_ctrl_c_ends_put_many_between_two_batches(path):
    numpy = pytest.importorskip("numpy")
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with siltstone.open(path, keys="int", values="int64") as db:

            def press(done, total):
                os.kill(os.getpid(), signal.SIGINT)

            with pytest.raises(KeyboardInterrupt):
                db.put_many({number: number for number in range(50_000)}, progress=press)
            assert len(db) == 10_000
            with pytest.raises(KeyboardInterrupt):
                db.put_many(numpy.arange(50_000), numpy.arange(50_000), progress=press)
            assert len(db) == 16_384
            db[99_999] = 1
    finally:
        signal.signal(signal.SIGINT, previous)
