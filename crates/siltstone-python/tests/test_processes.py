"""Threads, forks, several processes, Ctrl-C, pickling."""

import asyncio
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
import siltstone
from conftest import settings_of


def in_child(work):
    """Returns what `work` returns in a child made by a fork, as text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(work())
        except BaseException as error:  # noqa: BLE001 - the parent shows it
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def test_a_fork_is_refused_with_a_remedy(path):
    with siltstone.open(path, keys="str") as db:
        db["a"] = b"1"
        for work in (lambda: db["a"], lambda: db.get_many(["a"]), lambda: list(db), lambda: db.sync()):
            text = in_child(work)
            assert text.startswith("ForkedError") and "after the fork" in text, text
        assert in_child(lambda: db.close()) == "None"
        db["b"] = b"2"
        assert db["a"] == b"1" and len(db) == 2


@pytest.mark.parametrize("engine", ["silt", "flashkey", "flashstore", "bloomstore"])
def test_a_database_that_is_read_only_survives_a_fork(path, engine):
    with siltstone.open(path, keys="str", **settings_of(engine)) as db:
        db.put_many((f"k{number}", b"1") for number in range(3000))
    os.chdir(os.path.dirname(path))
    with siltstone.open("db", "r") as db:
        assert db["k1"] == b"1"

        def in_another_directory(work):
            os.chdir("/")
            return work()

        works = [lambda: db["k7"], lambda: len(db), lambda: db.get_many(["k1", "x"]), lambda: sum(1 for _ in db.items())]
        texts = [in_child(lambda work=work: in_another_directory(work)) for work in works]
        assert texts == ["b'1'", "3000", "[b'1', None]", "3000"]
        assert in_child(lambda: in_child(lambda: db["k9"]) + in_child(lambda: db["k8"])) == "b'1'b'1'"
        assert in_child(lambda: (db["k1"], db.close(), db.closed)) == "(b'1', None, True)"
        text = in_child(lambda: db.close() or db["k1"])
        assert text.startswith("ClosedError"), text
        assert db["k2"] == b"1"
    assert in_child(lambda: db["k1"]).startswith("ClosedError")


def test_a_dictionary_works_after_a_fork(path):
    dictionary = siltstone.Dictionary.build(path, {b"a": b"1"})
    assert in_child(lambda: dictionary[b"a"]) == "b'1'"
    assert in_child(lambda: dictionary.get_many([b"a", b"b"])) == "[b'1', None]"


def calls_of_a_reader(store):
    """What a child may do with a store that its parent opened for reading: every kind of read, by name."""
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    numpy = pytest.importorskip("numpy")
    ids = numpy.arange(100)

    async def gathered():
        return len(await asyncio.gather(*(store.aget(number) for number in range(100))))

    iterator, batches = iter(store.items()), store.to_arrow(batch_size=100)
    next(iterator)
    calls = {
        "get": lambda: store[5].tolist() == [5, 5],
        "get_many": lambda: len(store.get_many(range(100))) == 100,
        "arrays": lambda: store.get_many(ids)[1].all(),
        "contains": lambda: all(store.contains_many(ids)) and 5000 not in store,
        "to_arrow": lambda: store.to_arrow().read_all().num_rows == 3000,
        "to_pandas": lambda: len(store.to_pandas()) == 3000,
        "verify": lambda: store.verify()["live_records"] == 3000,
        "repr": lambda: "records" in repr(store) and "records" in store._repr_html_(),
        "an iterator of the parent": lambda: sum(1 for _ in iterator) == 2999,
        "batches of the parent": lambda: batches.read_all().num_rows == 3000,
    }
    if isinstance(store, siltstone.Database):
        calls["aget"] = lambda: asyncio.run(gathered()) == 100
        calls["stats"] = lambda: store.stats()["engine"] == "silt" and "siltstone" in store.prometheus()
        assert asyncio.run(gathered()) == 100
    return calls


@pytest.mark.parametrize("access", ["buffered", "direct_or_buffered"])
def test_every_read_of_a_reader_works_in_a_child(path, access):
    numpy = pytest.importorskip("numpy")
    ids = numpy.arange(3000)
    rows = numpy.ones((3000, 2), dtype="f4") * ids[:, None]
    with siltstone.open(path, keys="int", values="float32[2]") as db:
        db.put_many(ids, rows)
    codecs = {"keys": "int", "values": "float32[2]"}
    siltstone.Dictionary.build(path + ".dict", zip(ids.tolist(), rows), **codecs)
    dictionary = siltstone.Dictionary(path + ".dict", access=access, index_in_memory=False, **codecs)
    with siltstone.open(path, "r", access=access) as reader:
        for store in (reader, dictionary):
            for name, call in calls_of_a_reader(store).items():
                assert in_child(call) == "True", name
        text = in_child(lambda: reader.put(1, [1, 1]))
        assert text.startswith("ReadOnlyError"), text


class Rows:
    """A dataset as those of PyTorch, which opens its store when it is made."""

    def __init__(self, path):
        self.store = siltstone.open(path, "r")

    def __len__(self):
        return 3000

    def __getitem__(self, index):
        return self.store[index]


def test_a_dataset_that_opens_a_reader_works_in_workers_that_are_forked(path):
    with siltstone.open(path, keys="int", values="json") as db:
        db.put_many((number, number * 2) for number in range(3000))
    rows = Rows(path)
    assert rows[7] == 14

    def work(first, queue):
        queue.put(sum(rows[index] for index in range(first, len(rows), 2)))

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=work, args=(first, queue)) for first in range(2)]
    for worker in workers:
        worker.start()
    assert sum(queue.get(timeout=60) for _ in workers) == 2999 * 3000
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert rows[8] == 16


def in_threads(*works):
    """Runs each work on a thread of its own, all at the same time; raises what one of them raised."""
    barrier, errors = threading.Barrier(len(works)), []

    def run(work):
        try:
            barrier.wait()
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def look_up(store):
    """Runs in a worker."""
    return store[b"a"]


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_readers_are_sent_to_workers_by_path(path, method):
    with siltstone.open(path) as db:
        db[b"a"] = b"1"
        with pytest.raises(TypeError, match="checkpoint"):
            pickle.dumps(db)
    dictionary = siltstone.Dictionary.build(path + ".dict", {b"a": b"1"})
    with siltstone.open(path, "r") as reader:
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(look_up, [dictionary, reader, reader]) == [b"1"] * 3


def test_threads_share_a_database(path):
    with siltstone.open(path, keys="str") as db:

        def count(name):
            for number in range(300):
                db.incr("all")
                db[f"{name}/{number}"] = b"x"
                assert db.get(f"{name}/{number}") == b"x"

        in_threads(*(lambda name=name: count(name) for name in "abcd"))
        assert db["all"] == b"1200" and len(db) == 1201


def test_threads_share_an_iterator(path):
    with siltstone.open(path, keys="int") as db:
        db.put_many((number, b"") for number in range(20_000))
        keys, seen = iter(db), []

        def take():
            seen.extend(list(keys))

        in_threads(take, take, take, take)
        assert sorted(seen) == list(range(20_000))


def test_threads_share_batches_views_dictionaries_and_memoized_functions(path):
    dictionary = siltstone.Dictionary.build(path + ".dict", ((f"{n}", n) for n in range(100)), keys="str", values="json")
    with siltstone.open(path, keys="str", values="json") as db, db.write_batch() as batch:
        view = db.items()

        @db.memoize()
        def square(number):
            return number * number

        def write(thread):
            for number in range(200):
                batch[f"{thread}/{number}"] = number
                db.setdefault("first", thread)

        def read():
            for number in range(100):
                assert square(number) == number * number
                assert dictionary[str(number)] == number
                assert dictionary.get_many([str(number), "absent"]) == [number, None]
            assert all(isinstance(key, str) for key, _ in view)

        in_threads(lambda: write(0), lambda: write(1), read, read)
        assert len(batch) == 400 and db["first"] in (0, 1)
    with siltstone.open(path, "r") as db:
        assert all(db[f"{thread}/{number}"] == number for thread in (0, 1) for number in range(200))


def test_a_thread_may_close_the_database_while_others_use_it(path):
    for _ in range(5):
        db = siltstone.open(path, keys="int")

        def use():
            try:
                for number in range(100_000):
                    db[number] = b"x"
                    db.get_many(range(20))
                    next(iter(db))
            except siltstone.ClosedError:
                return
            raise AssertionError("the database was not closed")

        in_threads(use, use, use, lambda: (db.get_many(range(2000)), db.close()))
    with siltstone.open(path, "r") as db:
        assert db.verify() is not False and len(db) > 0


def test_other_threads_run_during_a_long_call(path):
    with siltstone.open(path, keys="int") as db:
        db.put_many((number, b"x" * 200) for number in range(5_000))
        turns = []
        db.verify(lambda done, total: turns.append(threading.active_count()))
        assert turns
        begin, has_run = threading.Event(), []

        def run():
            begin.wait()
            has_run.append(True)

        thread = threading.Thread(target=run)
        thread.start()
        interval = sys.getswitchinterval()
        # The interpreter switches threads only where a call lets it.
        sys.setswitchinterval(1000)
        try:
            begin.set()
            # The system may take its time to wake the thread.
            assert any(len(db) == 5_000 and has_run for _ in range(10_000))
        finally:
            sys.setswitchinterval(interval)
        thread.join()


@pytest.mark.parametrize(
    "call",
    [
        "db.verify(press)",
        "db.put_many(pressing((n, b'x') for n in range(10**9)))",
        "siltstone.Dictionary.build(path + '.dict', pressing(((b'%d' % n), b'x') for n in range(10**9)))",
    ],
)
def test_ctrl_c_stops_long_calls(path, call):
    program = textwrap.dedent(
        f"""
        import os, signal, siltstone
        # A process that was started in the background of a shell ignores the signal otherwise.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        path = {path!r}
        db = siltstone.open(path, keys="int")
        db.put_many((n, b"x" * 100) for n in range(30_000))
        db.compact()
        def press(done, total):
            os.kill(os.getpid(), signal.SIGINT)
        def pressing(items):
            for number, item in enumerate(items):
                if number == 5000:
                    press(0, 0)
                yield item
        try:
            {call}
        except KeyboardInterrupt:
            print("stopped", len(db) >= 30_000, os.path.exists(path + ".dict"))
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "stopped True False\n", done.stderr


def test_a_process_that_is_killed_loses_no_write(path):
    program = f"import os, signal, siltstone; db = siltstone.open({path!r}); db[b'a'] = b'1'; os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", program], timeout=60)
    assert done.returncode == -signal.SIGKILL
    with siltstone.open(path) as db:
        assert db[b"a"] == b"1"


def test_an_open_database_does_not_hold_up_the_end_of_a_process(path):
    program = f"import siltstone; db = siltstone.open({path!r}); db[b'a'] = b'1'"
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
