"""Compares the CPU time of calls from Python with that of the same calls from Rust, on the same records.

    cargo build --release --package siltstone-cli
    python crates/siltstone-python/bench/against_rust.py target/release/siltstone

The Rust side is `siltstone bench db`: the user and system time of a run with many operations, less that of a run with few.
Records have 16 bytes of key and 100 of value and stay in the page cache. CPU time is used because other processes
disturb it less than the time that passes.
"""

import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy
import siltstone

KEYS = 200_000
BATCH = 10_000
SHAPE = ["--fixed", "--key-size", "16", "--value-size", "100", "--num", str(KEYS)]


def rust_seconds(command, *arguments):
    """Returns the CPU time of a run of `siltstone bench db`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([command, "bench", "db", *SHAPE, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def rust_ns(command, name, path, batch=1):
    """Returns the CPU time of a read."""
    few, many = 10 * batch, max(600_000, 100 * batch)

    def run(reads):
        flags = ["--benchmarks", name, "--reads", str(reads), "--batch-size", str(batch)]
        return rust_seconds(command, "--db", path, "--use-existing-db", *flags)

    return min((run(many) - run(few)) / (many - few) for _ in range(3)) * 1e9


def python_ns(work, count, rounds=5):
    """Returns the CPU time of an operation; `work` does `count` of them."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append((time.process_time() - start) / count)
    return min(times) * 1e9


def main():
    command = sys.argv[1]
    folder = tempfile.mkdtemp(prefix="siltstone-bench-")
    path = os.path.join(folder, "db")
    fill = ["--benchmarks", "filluniquerandom", "--batch-size", str(BATCH)]
    rust_fill = min(rust_seconds(command, "--db", f"{path}{n}", *fill) for n in range(3)) / KEYS * 1e9
    rust_seconds(command, "--db", path, "--benchmarks", "filluniquerandom,compact")
    rust_get = rust_ns(command, "readrandom", path)
    rust_many = rust_ns(command, "multireadrandom", path, BATCH)
    with siltstone.open(path, "w") as db:
        keys = list(db)
        values = [db[key] for key in keys]
        random.Random(1).shuffle(keys)
        wanted = keys[:BATCH]

        def get():
            for key in wanted:
                db[key]

        rows = numpy.frombuffer(b"".join(wanted), dtype=numpy.uint8).reshape(BATCH, 16)
        out = numpy.empty((BATCH, 100), dtype=numpy.uint8)
        python_get = python_ns(get, BATCH)
        python_list = python_ns(lambda: db.get_many(wanted), BATCH)
        python_array = python_ns(lambda: db.get_many(rows, out=out), BATCH)
    key_rows = numpy.frombuffer(b"".join(keys), dtype=numpy.uint8).reshape(KEYS, 16)
    value_rows = numpy.frombuffer(b"".join(values), dtype=numpy.uint8).reshape(KEYS, 100)
    fills = {"list": [], "array": []}
    for number in range(6):
        kind = ("list", "array")[number % 2]
        with siltstone.open(f"{path}-{number}", fixed=(16, 100)) as db:
            pairs = list(zip(keys, values)) if kind == "list" else None
            work = (lambda: db.put_many(pairs)) if pairs else (lambda: db.put_many(key_rows, value_rows))
            fills[kind].append(python_ns(work, KEYS, rounds=1))
    shutil.rmtree(folder)
    print(f"get: Rust {rust_get:.0f} ns, Python {python_get:.0f} ns")
    print(f"get_many of {BATCH:,}: Rust {rust_many:.0f} ns per key, Python {python_array:.0f} (arrays), {python_list:.0f} (list)")
    print(f"put_many of {KEYS:,}: Rust {rust_fill:.0f} ns per key (the whole run), ", end="")
    print(f"Python {min(fills['array']):.0f} (arrays), {min(fills['list']):.0f} (pairs)")


if __name__ == "__main__":
    main()
