"""Reads all records of a database: in a loop over `items()`, and as batches of Arrow.

    python arrow_out.py --rows 500000 --values 'float32[64]'

Each way runs in a process of its own. Prints rows per second of processor time, and by how much the memory of the process
(its peak) grew after the database was opened.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time

import numpy
import siltstone


def load(path, rows, values):
    """Puts rows of ones."""
    item, shape = siltstone._codecs.array_shape(values)
    with siltstone.open(path, keys="int", values=values) as db:
        for first in range(0, rows, 100_000):
            ids = numpy.arange(first, min(rows, first + 100_000))
            db.put_many(ids, numpy.ones((len(ids), *shape), dtype=item))


def read(path, way):
    """Reads all records, and prints what it cost."""
    from siltstone import arrow

    with siltstone.open(path, "r") as db:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start, count = time.process_time(), 0
        if way == "loop":
            for _ in db.items():
                count += 1
        else:
            for batch in arrow.reader(db):
                count += batch.num_rows
        seconds = time.process_time() - start
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{way}: {count / seconds:,.0f} rows per second of processor time, {grown >> 10} MiB of memory")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--values", default="float32[64]")
    parser.add_argument("--read", nargs=2, metavar=("PATH", "WAY"))
    options = parser.parse_args()
    if options.read:
        read(*options.read)
    else:
        with tempfile.TemporaryDirectory() as folder:
            load(folder + "/db", options.rows, options.values)
            for way in ("loop", "arrow"):
                subprocess.run([sys.executable, __file__, "--read", folder + "/db", way], check=True)
