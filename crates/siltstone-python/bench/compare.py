"""Compares key-value stores for Python in one run: load, get, get_many, RAM per key, size.

Each store is in a process of its own. The processes take turns, round by round, so that all see the same machine; a
figure is the median of the rounds. A store that is not installed is left out.

    pip install . diskcache lmdb plyvel rocksdict
    python crates/siltstone-python/bench/compare.py --keys 1000000 --rounds 5

With `--memory`, each process is in a memory cgroup of this size, to which its share of the page cache counts as well; this
needs root, and the controller at /sys/fs/cgroup/memory or /sys/fs/cgroup.

    python crates/siltstone-python/bench/compare.py --keys 1000000 --value-bytes 400 --memory 160M --reads 4000

Loading ends when the records are on the device. It is measured without the time to make records. Then a store that has
background work finishes it; `compact` is that time. A store that loads for longer than `--load-seconds` keeps what it has: the
table says how many keys. Memory is that of /proc/self/smaps_rollup without pages of files, after the gets, above that before
the store was opened. Needs Linux.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import shelve
import shutil
import statistics
import sys
import tempfile
import time

BATCH = 10_000


def key_of(number):
    """Returns 16 bytes that look random."""
    return (number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128)).to_bytes(16, "big")


class Siltstone:
    """With records of a fixed size, as the others have no such setting; all else is as by default."""

    def open(self, path, settings):
        import siltstone

        self.db = siltstone.open(path, fixed=(16, settings.value_bytes))

    def load(self, records):
        self.db.put_many(records)

    def compact(self):
        self.db.compact()

    def get(self, key):
        return self.db[key]

    def get_many(self, keys):
        return self.db.get_many(keys)


class Dict:
    """A dict: the floor for time, and the ceiling for memory."""

    def open(self, path, settings):
        self.db = {}

    def load(self, records):
        self.db.update(records)

    def compact(self):
        pass

    def get(self, key):
        return self.db[key]

    def get_many(self, keys):
        get = self.get
        return [get(key) for key in keys]


class Lmdb(Dict):
    """One transaction per batch."""

    def open(self, path, settings):
        import lmdb

        self.db = lmdb.open(path, map_size=64 << 30, sync=False, writemap=True)
        self.reader = None

    def load(self, records):
        with self.db.begin(write=True) as write:
            for key, value in records:
                write.put(key, value)

    def compact(self):
        self.reader = self.db.begin()

    def get(self, key):
        return self.reader.get(key)


class Plyvel(Dict):
    """LevelDB with a filter of 10 bits per key."""

    def open(self, path, settings):
        import plyvel

        self.db = plyvel.DB(path, create_if_missing=True, bloom_filter_bits=10)

    def load(self, records):
        with self.db.write_batch() as batch:
            for key, value in records:
                batch.put(key, value)

    def compact(self):
        self.db.compact_range()

    def get(self, key):
        return self.db.get(key)


class RocksDict(Dict):
    """RocksDB with raw keys and values."""

    def open(self, path, settings):
        import rocksdict

        self.module = rocksdict
        self.db = rocksdict.Rdict(path, options=rocksdict.Options(raw_mode=True))

    def load(self, records):
        batch = self.module.WriteBatch(raw_mode=True)
        for key, value in records:
            batch.put(key, value)
        self.db.write(batch)

    def compact(self):
        self.db.flush()
        self.db.compact_range(None, None)

    def get_many(self, keys):
        return self.db[list(keys)]


class DiskCache(Dict):
    """diskcache without eviction."""

    def open(self, path, settings):
        import diskcache

        self.db = diskcache.Cache(path, eviction_policy="none", size_limit=1 << 40)

    def load(self, records):
        with self.db.transact():
            for key, value in records:
                self.db.set(key, value)


class Sqlite(Dict):
    """A table without rowid, synchronous off."""

    def open(self, path, settings):
        import sqlite3

        os.mkdir(path)
        self.db = sqlite3.connect(os.path.join(path, "db"), isolation_level=None)
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("pragma synchronous = off")
        self.db.execute("create table records (key blob primary key, value blob) without rowid")

    def load(self, records):
        self.db.execute("begin")
        self.db.executemany("insert or replace into records values (?, ?)", records)
        self.db.execute("commit")

    def get(self, key):
        return self.db.execute("select value from records where key = ?", (key,)).fetchone()[0]


class DbmSqlite(Dict):
    """The standard library's dbm.sqlite3, from Python 3.13 on."""

    def open(self, path, settings):
        import dbm.sqlite3

        os.mkdir(path)
        self.db = dbm.sqlite3.open(os.path.join(path, "db"), "c")

    def load(self, records):
        for key, value in records:
            self.db[key] = value


class Shelf(Dict):
    """shelve over the standard library's best dbm; keys are strings."""

    def open(self, path, settings):
        os.mkdir(path)
        self.db = shelve.open(os.path.join(path, "db"))

    def load(self, records):
        for key, value in records:
            self.db[key.hex()] = value

    def get(self, key):
        return self.db[key.hex()]


STORES = {
    "siltstone": Siltstone,
    "rocksdict": RocksDict,
    "plyvel": Plyvel,
    "lmdb": Lmdb,
    "sqlite3": Sqlite,
    "diskcache": DiskCache,
    "dbm.sqlite3": DbmSqlite,
    "shelve": Shelf,
    "dict": Dict,
}


class Group:
    """A cgroup that limits the memory of a process, its page cache included."""

    def __init__(self, name, limit):
        version_1 = "/sys/fs/cgroup/memory"
        base = version_1 if os.path.exists(version_1 + "/memory.limit_in_bytes") else "/sys/fs/cgroup"
        self.path = os.path.join(base, f"siltstone-bench-{os.getpid()}-{name}")
        os.mkdir(self.path)
        self.write("memory.limit_in_bytes" if base == version_1 else "memory.max", limit)

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w") as file:
            file.write(str(value))

    def join(self):
        """Moves this process to the group."""
        self.write("cgroup.procs", os.getpid())


def bytes_of(text):
    """Returns the number of a text such as 160M."""
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1]] if text[-1] in units else int(text)


def sync_files(path):
    """Waits until what was written is on the device. Background work may remove files meanwhile."""
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, name), "rb") as file:
                os.fsync(file)


def private_bytes():
    """Returns the memory of the process that is not a mapped file."""
    with open("/proc/self/smaps_rollup") as file:
        kinds = dict(line.split(":") for line in list(file)[1:])
    return sum(int(kinds[kind].split()[0]) * 1024 for kind in ("Anonymous",))


def size_of(path):
    return sum(
        os.stat(os.path.join(folder, name)).st_blocks * 512 for folder, _, names in os.walk(path) for name in names
    )


def value_of(pool, number, length):
    """Returns a value that does not compress with its neighbours."""
    first = number * 7919 % (1 << 20)
    return pool[first : first + length]


def load(store, path, pool, settings):
    """Loads records until all are there or the time is over, and returns their number and the nanoseconds per record."""
    spent, count = 0.0, 0
    while count < settings.keys and spent < settings.load_seconds:
        numbers = range(count, min(count + BATCH, settings.keys))
        records = [(key_of(number), value_of(pool, number, settings.value_bytes)) for number in numbers]
        start = time.perf_counter()
        store.load(records)
        spent += time.perf_counter() - start
        count = numbers.stop
    start = time.perf_counter()
    sync_files(path)
    return count, (spent + time.perf_counter() - start) / count * 1e9


def serve(name, settings, group, folder, pipe):
    """Runs a store, a command at a time."""
    if group:
        group.join()
    try:
        answer(STORES[name](), os.path.join(folder, "db"), settings, pipe)
    except ImportError as error:
        pipe.send(f"{name} is left out: {error}")


def answer(store, path, settings, pipe):
    """Opens a store, and does what the pipe says."""
    random_of = random.Random(1)
    pool = random_of.randbytes((1 << 20) + settings.value_bytes)
    before = private_bytes()
    store.open(path, settings)
    pipe.send({})
    keys = 0
    while command := pipe.recv():
        if command == "load":
            keys, ns = load(store, path, pool, settings)
            start = time.perf_counter()
            store.compact()
            pipe.send({"load": ns, "compact": (time.perf_counter() - start) / keys * 1e9, "keys": keys})
        elif command == "measure":
            pipe.send({"ram": (private_bytes() - before) / keys, "size": size_of(path) / keys})
        else:
            numbers = [random_of.randrange(keys) for _ in range(settings.reads)]
            wanted = [key_of(number) for number in numbers]
            start = time.perf_counter()
            found = [store.get(key) for key in wanted] if command == "get" else store.get_many(wanted)
            spent = time.perf_counter() - start
            assert found == [value_of(pool, number, settings.value_bytes) for number in numbers]
            pipe.send({"ns": spent / settings.reads * 1e9})


class Child:
    """The process of a store."""

    def __init__(self, name, settings):
        context = multiprocessing.get_context("spawn")
        self.name = name
        self.group = Group(name, settings.memory) if settings.memory else None
        self.folder = tempfile.mkdtemp(prefix="siltstone-bench-", dir=settings.folder)
        self.pipe, other = context.Pipe()
        arguments = (name, settings, self.group, self.folder, other)
        self.process = context.Process(target=serve, args=arguments, daemon=True)
        self.process.start()
        other.close()
        self.results = {"get": [], "get_many": []}
        self.is_ready = isinstance(self.receive(), dict)

    def receive(self):
        """Returns a reply; a text if there is none."""
        try:
            answer = self.pipe.recv()
        except EOFError:
            answer = f"{self.name} is left out: its process has ended; it may need more memory than --memory"
        if isinstance(answer, str):
            print(answer, file=sys.stderr)
            self.is_ready = False
        return answer

    def ask(self, command):
        """Sends a command, and keeps the figures of the reply."""
        self.pipe.send(command)
        answer = self.receive()
        if not self.is_ready:
            return
        if "ns" in answer:
            self.results[command].append(answer["ns"])
        else:
            self.results.update(answer)

    def end(self):
        """Ends the process and removes its files."""
        if self.process.is_alive():
            self.pipe.send(None)
        self.process.join()
        shutil.rmtree(self.folder)
        if self.group:
            os.rmdir(self.group.path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--reads", type=int, default=10_000, help="per round")
    parser.add_argument("--load-seconds", type=float, default=float("inf"), help="how long a store loads, at most")
    parser.add_argument("--memory", type=bytes_of, help="bytes of the cgroup of each store, as in 160M")
    parser.add_argument("--folder", default=None, help="where the stores are")
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--json", action="store_true")
    settings = parser.parse_args()
    children = [Child(name, settings) for name in settings.stores.split(",")]
    rounds = ["get", "get_many"] * settings.rounds
    for command in ["load", *rounds, "measure"]:
        for child in children:
            if child.is_ready:
                child.ask(command)
    results = {child.name: child.results for child in children if child.is_ready}
    for child in children:
        child.end()
    medians = {
        name: {key: statistics.median(value) if isinstance(value, list) else value for key, value in result.items()}
        for name, result in results.items()
    }
    if settings.json:
        print(json.dumps(medians, indent=1))
        return
    columns = ("load", "compact", "get", "get_many")
    print(f"{'store':<12}" + "".join(f"{column + ' µs':>13}" for column in columns) + "    RAM B/key   size B/key")
    for name, row in medians.items():
        times = "".join(f"{row[column] / 1e3:>13.2f}" for column in columns)
        note = f"  ({row['keys']} keys)" if row["keys"] < settings.keys else ""
        print(f"{name:<12}{times}{row['ram']:>13.2f}{row['size']:>13.1f}{note}")


if __name__ == "__main__":
    main()
