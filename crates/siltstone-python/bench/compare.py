"""Compares key-value stores for Python in one run: load, get, get_many, RAM per key, size.

Each store is in a process of its own. The processes take turns, round by round, so that all see the same machine; a
figure is the median of the rounds. A store that is not installed is left out.

    pip install . diskcache lmdb plyvel rocksdict numpy
    python crates/siltstone-python/bench/compare.py --keys 1000000 --rounds 5

Needs Linux: memory is that of /proc/self/smaps_rollup without pages of mapped files.
"""

import argparse
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
    """With records of a fixed size, as the others have no such setting."""

    def open(self, path, settings):
        import siltstone

        self.db = siltstone.open(path, fixed=(16, settings.value_bytes))

    def load(self, records):
        self.db.put_many(records)

    def finish(self):
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

    def finish(self):
        pass

    def get(self, key):
        return self.db[key]

    def get_many(self, keys):
        get = self.get
        return [get(key) for key in keys]


class Lmdb(Dict):
    """One transaction per batch; no sync, as the others do none."""

    def open(self, path, settings):
        import lmdb

        self.db = lmdb.open(path, map_size=64 << 30, sync=False, writemap=True)
        self.reader = None

    def load(self, records):
        with self.db.begin(write=True) as write:
            for key, value in records:
                write.put(key, value)

    def finish(self):
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

    def finish(self):
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

    def finish(self):
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
#: These commit each record or are so slow that they get a part of the keys.
SLOW = {"diskcache": 10, "dbm.sqlite3": 10, "shelve": 10}


def private_bytes():
    """Returns the memory of the process that is not a mapped file."""
    with open("/proc/self/smaps_rollup") as file:
        kinds = dict(line.split(":") for line in list(file)[1:])
    return sum(int(kinds[kind].split()[0]) * 1024 for kind in ("Anonymous",))


def size_of(path):
    return sum(
        os.stat(os.path.join(folder, name)).st_blocks * 512 for folder, _, names in os.walk(path) for name in names
    )


def serve(name, settings, pipe):
    """Runs a store, a command at a time."""
    folder = tempfile.mkdtemp(prefix="siltstone-bench-", dir=settings.folder)
    path = os.path.join(folder, "db")
    store = STORES[name]()
    keys = settings.keys // SLOW.get(name, 1)
    random_of = random.Random(1)
    pool = random_of.randbytes((1 << 20) + settings.value_bytes)

    def value_of(number):
        """Returns a value that does not compress with its neighbours."""
        first = number * 7919 % (1 << 20)
        return pool[first : first + settings.value_bytes]

    try:
        store.open(path, settings)
    except ImportError as error:
        pipe.send({"error": str(error)})
        shutil.rmtree(folder)
        return
    pipe.send({})
    before = private_bytes()
    while command := pipe.recv():
        start = time.perf_counter()
        if command == "load":
            for first in range(0, keys, BATCH):
                records = range(first, min(first + BATCH, keys))
                store.load([(key_of(number), value_of(number)) for number in records])
            store.finish()
            count = keys
        elif command in ("get", "get_many"):
            numbers = [random_of.randrange(keys) for _ in range(BATCH)]
            wanted = [key_of(number) for number in numbers]
            start = time.perf_counter()
            found = [store.get(key) for key in wanted] if command == "get" else store.get_many(wanted)
            count = BATCH
            assert len(found) == BATCH and found[-1] == value_of(numbers[-1])
        else:
            pipe.send({"ram": (private_bytes() - before) / keys, "size": size_of(path) / keys})
            continue
        pipe.send({"ns": (time.perf_counter() - start) / count * 1e9})
    shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default=None, help="where the stores are")
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--json", action="store_true")
    settings = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for name in settings.stores.split(","):
        pipe, other = context.Pipe()
        process = context.Process(target=serve, args=(name, settings, other), daemon=True)
        process.start()
        answer = pipe.recv()
        if "error" in answer:
            print(f"{name} is left out: {answer['error']}", file=sys.stderr)
            continue
        pipes[name] = pipe
        processes.append(process)
    results = {name: {"get": [], "get_many": []} for name in pipes}

    def ask(name, command):
        pipes[name].send(command)
        return pipes[name].recv()

    for name in pipes:
        results[name]["load"] = [ask(name, "load")["ns"]]
    for _ in range(settings.rounds):
        for command in ("get", "get_many"):
            for name in pipes:
                results[name][command].append(ask(name, command)["ns"])
    for name in pipes:
        results[name].update(ask(name, "measure"))
        pipes[name].send(None)
    for process in processes:
        process.join()
    medians = {
        name: {key: statistics.median(value) if isinstance(value, list) else value for key, value in result.items()}
        for name, result in results.items()
    }
    if settings.json:
        print(json.dumps(medians, indent=1))
        return
    print(f"{'store':<12} {'load µs':>9} {'get µs':>9} {'get_many µs':>12} {'RAM B/key':>10} {'size B/key':>11}")
    for name, row in medians.items():
        times = [row[command] / 1e3 for command in ("load", "get", "get_many")]
        note = f"  ({settings.keys // SLOW[name]} keys)" if name in SLOW else ""
        line = "{:<12} {:>9.2f} {:>9.2f} {:>12.2f} {:>10.1f} {:>11.1f}{}"
        print(line.format(name, *times, row["ram"], row["size"], note))


if __name__ == "__main__":
    main()
