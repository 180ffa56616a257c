"""Removes documents that occur twice from Parquet files with Spark, and keeps their hashes as shards of a dictionary.

    spark-submit dedup_spark.py --column text --out unique.parquet --shards hashes pages-*.parquet

Spark sends documents with equal hashes to the same partition. There, `mapPartitions` has a set of hashes on disk, which may exceed
memory, and writes it as a dictionary at the end. Later jobs look up what is known in the dictionaries, which all workers can
open. A partition that Spark repeats writes its dictionary anew, in place of the old one.
"""

import argparse
import hashlib
import itertools
import os
import sys
import tempfile

import siltstone

#: A record is a hash of 16 bytes, which is not hashed again, and no value.
SETTINGS = {"fixed": (16, 0), "hashed_keys": True}
#: The rows that are looked up together.
BATCH = 10_000


def digest_of(document):
    """Returns the hash of a document."""
    return hashlib.blake2b(document.encode(), digest_size=16).digest()


def partition_of(digest):
    """Returns a number that places a hash. Spark takes it modulo the number of partitions."""
    return int.from_bytes(digest[-4:], "big")


def unique_rows(folder):
    """Returns the function for `mapPartitionsWithIndex`: rows whose hash is new, and a dictionary of the hashes."""

    def work(partition, pairs):
        with tempfile.TemporaryDirectory() as temporary:
            with siltstone.open(os.path.join(temporary, "seen"), **SETTINGS) as seen:
                while batch := list(itertools.islice(pairs, BATCH)):
                    is_new = seen.insert_many_if_absent([(digest, b"") for digest, _ in batch])
                    yield from (row for (_, row), new in zip(batch, is_new) if new)
                path = os.path.join(folder, f"shard-{partition:05}.dictionary")
                siltstone.Dictionary.build(path, seen.items(), **SETTINGS)

    return work


def deduplicate(spark, files, column, out, folder, partitions):
    """Writes the rows with one document each to `out`, and returns the numbers of rows read and written."""
    os.makedirs(folder, exist_ok=True)
    rows = spark.read.parquet(*files)
    pairs = rows.rdd.map(lambda row: (digest_of(row[column]), row))
    unique = pairs.partitionBy(partitions, partition_of).mapPartitionsWithIndex(unique_rows(folder))
    spark.createDataFrame(unique, rows.schema).write.parquet(out)
    return rows.count(), spark.read.parquet(out).count()


def main():
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--column", required=True, help="the column of the documents")
    parser.add_argument("--out", required=True)
    parser.add_argument("--shards", required=True, help="the folder of the dictionaries, which all workers share")
    parser.add_argument("--partitions", type=int, default=4)
    arguments = parser.parse_args()
    # The workers need the packages of this interpreter, unless the cluster says otherwise.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("dedup").getOrCreate()
    folder = os.path.abspath(arguments.shards)
    rows, written = deduplicate(spark, arguments.files, arguments.column, arguments.out, folder, arguments.partitions)
    spark.stop()
    print(f"{rows} rows, {written} unique")


if __name__ == "__main__":
    main()
