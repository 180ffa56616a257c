"""Shards on a local cluster of Dask and of Ray, checkpoints by fsspec, and the example that removes duplicates."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
import siltstone

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def test_keys_are_in_the_same_shard_everywhere():
    from siltstone._shards import shard_of

    assert [shard_of(key, 8) for key in ("a", "b", b"a", 1, -1, 2**64 - 1)] == [3, 1, 3, 0, 0, 3]
    counts = [0] * 4
    for number in range(10_000):
        counts[shard_of(number, 4)] += 1
    assert min(counts) > 2300


def test_shards_take_types_as_codecs_and_refuse_tables(tmp_path):
    pandas = pytest.importorskip("pandas")
    from siltstone import _shards

    class Local(_shards.Shards):
        """Shards in this process."""

        shards = 2

        def _call(self, shard, method, *arguments):
            path = _shards.path_of(str(tmp_path), shard, 2)
            return _shards.run(path, {"keys": int, "values": float, "memory_budget": "16MiB"}, method, *arguments)

        def _gather(self, futures):
            return futures

    store = Local()
    try:
        assert store.put_many(pandas.Series({1: 1.5, 2: 2.5})) == 2 and store.get_many([1, 2, 3]) == [1.5, 2.5, None]
        for call in (store.put_many, store.insert_many_if_absent):
            with pytest.raises(siltstone.SettingError, match="DataFrame is a table"):
                call(pandas.DataFrame({"a": [1]}))
    finally:
        store.close()


def use(store):
    """Uses a store of shards as a database is used."""
    assert store.insert_many_if_absent([("a", b"1"), ("b", b"2"), ("a", b"3")]) == [True, True, False]
    assert store.put_many({f"k{number}": b"%d" % number for number in range(1000)}) == 1000
    assert store.get_many(["k999", "none", "a"], b"-") == [b"999", b"-", b"1"]
    assert store.contains_many(["b", "c"]) == [True, False]
    store.sync()
    assert store.approximate_len() == 1002 and len(store.stats()) == store.shards


class Deadly:
    """A value that kills the process that first encodes it for the database of a shard, in the middle of `put_many`."""

    def __init__(self, marker):
        self.marker = str(marker)
        self.home = os.getpid()

    def __reduce__(self):
        if os.getpid() != self.home and not os.path.exists(self.marker):
            with open(self.marker, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return again, (self.marker, self.home)


def again(marker, home):
    """Makes a value that was pickled."""
    value = Deadly(marker)
    value.home = home
    return value


def survive(store, marker):
    """Puts records. One kills a worker: it is the 15,000th of its shard, whose first 10,000 are then written."""
    records = [(number, number) for number in range(40_000)]
    records[30_000] = (30_000, Deadly(marker))
    assert store.put_many(records) == 40_000
    assert marker.exists()
    assert store.get_many([0, 15_000, 30_001, 39_999, 40_000]) == [0, 15_000, 30_001, 39_999, None]
    assert store.contains_many(range(40_001)) == [True] * 40_000 + [False]


def restore(url, shards, tmp_path):
    """Returns the records of a checkpoint of shards."""
    from siltstone import checkpoints
    from siltstone._shards import path_of

    found = {}
    for shard in range(shards):
        checkpoints.load(path_of(url, shard, shards), tmp_path / str(shard))
        with siltstone.open(tmp_path / str(shard), "r") as db:
            found.update(db.items())
    return found


def test_dask_workers_have_shards(tmp_path):
    distributed = pytest.importorskip("dask.distributed")
    pytest.importorskip("fsspec")
    from siltstone.dask import ShardedStore

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        store = ShardedStore(client, str(tmp_path / "store"), shards=3, keys="str")
        use(store)
        store.checkpoint((tmp_path / "copy").as_uri())
        # A shard that was closed is opened again.
        store.close()
        assert store.get_many(["k7", "none"]) == [b"7", None]
        store.close()
    found = restore((tmp_path / "copy").as_uri(), 3, tmp_path)
    assert len(found) == 1002 and found["a"] == b"1"


def test_a_dask_worker_that_is_killed_during_work_loses_nothing(tmp_path):
    distributed = pytest.importorskip("dask.distributed")
    from siltstone.dask import ShardedStore

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        store = ShardedStore(client, str(tmp_path / "store"), keys="int", values="pickle")
        before = client.run(os.getpid)
        survive(store, tmp_path / "killed")
        assert len(set(client.run(os.getpid).values()) - set(before.values())) == 1
        store.close()


def test_a_ray_actor_that_is_killed_during_work_loses_nothing(tmp_path):
    ray = pytest.importorskip("ray")
    from siltstone.ray import ShardedStore

    # Where an actor finds this module.
    here = [str(pathlib.Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(here)}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    try:
        options = {"num_cpus": 0.5}
        store = ShardedStore(str(tmp_path / "store"), shards=2, keys="int", values="pickle", options=options)
        survive(store, tmp_path / "killed")
        store.close()
    finally:
        ray.shutdown()


def test_ray_actors_have_shards(tmp_path):
    ray = pytest.importorskip("ray")
    from siltstone.ray import ShardedStore

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        store = ShardedStore(str(tmp_path / "store"), shards=2, keys="str", options={"num_cpus": 0.5})
        use(store)
        for actor in store.actors:
            ray.kill(actor, no_restart=False)
        assert store.get_many(["k7", "none"]) == [b"7", None]
        store.close()
    finally:
        ray.shutdown()


def test_checkpoints_go_to_any_file_system(path, tmp_path):
    pytest.importorskip("fsspec")
    from siltstone import checkpoints

    with siltstone.open(path, keys="str", values="json") as db:
        db.update((str(number), number) for number in range(1000))
        for url in ("memory://test/one", (tmp_path / "copy").as_uri()):
            checkpoints.save(db, url)
            with pytest.raises(siltstone.Error, match="already"):
                checkpoints.save(db, url)
        db["later"] = 1
    for number, url in enumerate(("memory://test/one", (tmp_path / "copy").as_uri())):
        target = tmp_path / f"restored {number}"
        checkpoints.load(url, target)
        with siltstone.open(target, "r") as db:
            assert len(db) == 1000 and db["7"] == 7
        with pytest.raises(siltstone.Error, match="empty"):
            checkpoints.load(url, target)
    with pytest.raises(siltstone.Error, match="complete"):
        checkpoints.load("memory://test/none", tmp_path / "none")
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".checkpoint")]


def test_checkpoints_go_to_s3(path, tmp_path, monkeypatch):
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    from siltstone import checkpoints

    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        import fsspec

        fsspec.filesystem("s3").mkdir("backup")
        with siltstone.open(path, keys="str", values="json") as db:
            db.update((str(number), number) for number in range(1000))
            checkpoints.save(db, "s3://backup/daily/one")
            with pytest.raises(siltstone.Error, match="already"):
                checkpoints.save(db, "s3://backup/daily/one")
        checkpoints.load("s3://backup/daily/one", tmp_path / "restored")
        with siltstone.open(tmp_path / "restored", "r") as db:
            assert len(db) == 1000 and db["7"] == 7
        with pytest.raises(siltstone.Error, match="complete"):
            checkpoints.load("s3://backup/daily/two", tmp_path / "none")
    finally:
        server.stop()


@pytest.mark.parametrize("engine", ["local", "dask", "ray", "spark"])
def test_duplicates_leave_a_parquet_dataset(tmp_path, engine):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    if engine != "local":
        pytest.importorskip({"dask": "dask.distributed", "spark": "pyspark"}.get(engine, engine))
    files = []
    for part in range(3):
        texts = [f"document {number}" for number in range(part * 500, part * 500 + 1000)]
        table = pyarrow.table({"text": texts, "part": [part] * 1000})
        files.append(str(tmp_path / f"{part}.parquet"))
        parquet.write_table(table, files[-1])
    out = str(tmp_path / "out.parquet")
    program = ["dedup_spark.py"] if engine == "spark" else ["dedup_parquet.py", "--engine", engine]
    command = [sys.executable, str(EXAMPLES / program[0]), *program[1:], "--column", "text", "--out", out]
    if engine == "spark":
        if shutil.which("java") is None:
            pytest.skip("Spark needs Java")
        command += ["--shards", str(tmp_path / "shards")]
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=200)
    assert done.stdout.splitlines()[-1:] == ["3000 rows, 2000 unique"], done.stdout + done.stderr
    if engine == "spark":
        shards = [siltstone.Dictionary(tmp_path / "shards" / name) for name in os.listdir(tmp_path / "shards")]
        assert len(shards) == 4 and sum(map(len, shards)) == 2000
    table = parquet.read_table(out)
    assert sorted(set(table.column("text").to_pylist())) == sorted(f"document {number}" for number in range(2000))
    assert table.num_rows == 2000


def test_torch_reads_rows_and_samples(tmp_path):
    pytest.importorskip("torch")
    program = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import torch_embedding as example; "
    program += f"print(example.main({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200)
    assert done.stdout == "(48.0, 1000)\n", done.stderr
