"""Removes documents that occur twice from Parquet files, with a set of their hashes that may exceed memory.

    python dedup_parquet.py --column text --out unique.parquet pages-*.parquet
    python dedup_parquet.py --engine dask --column text --out unique.parquet pages-*.parquet

The hashes are in a database in this process, or in shards on the workers of Dask or the actors of Ray.
"""

import argparse
import hashlib
import tempfile

import pyarrow
import pyarrow.parquet
import siltstone

#: A record is a hash of 16 bytes, which is not hashed again, and no value.
SETTINGS = {"fixed": (16, 0), "hashed_keys": True}


def unique_batches(seen, files, column):
    """Yields the rows of the files whose document was not seen before."""
    for file in files:
        for batch in pyarrow.parquet.ParquetFile(file).iter_batches(batch_size=10_000):
            documents = batch.column(column).to_pylist()
            hashes = [hashlib.blake2b(document.encode(), digest_size=16).digest() for document in documents]
            is_new = seen.insert_many_if_absent([(digest, b"") for digest in hashes])
            yield batch.filter(pyarrow.array(is_new))


def deduplicate(seen, files, column, out):
    """Writes the first row of each document to `out`, and returns the numbers of rows read and written."""
    files = list(files)
    schema = pyarrow.parquet.read_schema(files[0])
    written = 0
    with pyarrow.parquet.ParquetWriter(out, schema) as writer:
        for batch in unique_batches(seen, files, column):
            writer.write_batch(batch)
            written += batch.num_rows
    return sum(pyarrow.parquet.read_metadata(file).num_rows for file in files), written


def open_set(engine, folder, workers):
    """Returns a set of hashes, and a function that ends what was started for it."""
    if engine == "dask":
        import dask.distributed
        from siltstone.dask import ShardedStore

        cluster = dask.distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        client = dask.distributed.Client(cluster)

        def end():
            client.close()
            cluster.close()

        return ShardedStore(client, folder, **SETTINGS), end
    if engine == "ray":
        import ray
        from siltstone.ray import ShardedStore

        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        return ShardedStore(folder, shards=workers, **SETTINGS), ray.shutdown
    return siltstone.open(folder, **SETTINGS), lambda: None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--column", required=True, help="the column of the documents")
    parser.add_argument("--out", required=True)
    parser.add_argument("--engine", choices=["local", "dask", "ray"], default="local")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seen", help="where the hashes stay; without it they are removed at the end")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.seen or temporary + "/seen"
        seen, end = open_set(arguments.engine, folder, arguments.workers)
        rows, written = deduplicate(seen, arguments.files, arguments.column, arguments.out)
        seen.close()
        end()
    print(f"{rows} rows, {written} unique")


if __name__ == "__main__":
    main()
