"""Runs a client of Redis Cluster over three nodes, also while the map of slots changes: cluster.py [COMMAND...]

Without a command the client is that of redis-py. A command is run with the ports of the nodes as its last arguments. It
prints `ready` when it has written its keys, writes more until its input has the line `changed`, and ends with 0 if all
that it writes then is as it should be.

Until all nodes have the new map, some send a client to each other. A client that follows no more redirections fails
with MOVED: only then, and only with this error, a write may fail.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import redis
from redis.cluster import RedisCluster

import servers

KEYS = 1000
PATIENCE_S = 120


def write_map(file, slots):
    """Replaces the map by one with these slots of each port."""
    new = file.with_suffix(".new")
    new.write_text("".join(f"127.0.0.1:{port} {ranges}\n" for port, ranges in slots.items()))
    new.replace(file)


@contextlib.contextmanager
def nodes():
    """Runs three nodes, and yields their ports and the file of their map."""
    program, ports = os.environ["SERVED_PROGRAM"], servers.free_ports(3)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "map"
        write_map(file, {ports[0]: "0-5460", ports[1]: "5461-10922", ports[2]: "10923-16383"})
        processes = []
        try:
            for port in ports:
                command = [program, "serve", "data", f"{folder}/{port}", "--redis", f"127.0.0.1:{port}"]
                command += ["--cluster", str(file), "--json"]
                processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
                json.loads(processes[-1].stdout.readline())
            yield ports, file
        finally:
            for process in processes:
                process.terminate()
                process.wait(60)


def change_map(ports, file):
    """The first two nodes change their slots. What they have is found at the new owner only if it is written again."""
    write_map(file, {ports[0]: "5461-10922", ports[1]: "0-5460", ports[2]: "10923-16383"})
    for port in ports:
        assert redis.Redis(port=port).execute_command("SILTSTONE", "RELOAD") == 0


def python_client(ports, change):
    client = RedisCluster(host="127.0.0.1", port=ports[0])
    for number in range(KEYS):
        assert client.set(f"key:{number}", number)
    assert client.mget_nonatomic(["key:1", "key:2"]) == [b"1", b"2"]
    assert client.mset({"{tag}a": 1, "{tag}b": 2}) and client.mget("{tag}a", "{tag}b") == [b"1", b"2"]
    assert client.eval("return redis.call('INCR', KEYS[1])", 1, "counter") == 1
    changed, failures = threading.Event(), []

    def write():
        while not changed.is_set():
            for number in range(KEYS):
                try:
                    client.set(f"key:{number}", number)
                except redis.exceptions.MovedError:
                    pass
                except redis.RedisError as error:
                    failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    change()
    changed.set()
    writer.join()
    assert not failures, failures
    for number in range(KEYS):
        assert client.set(f"key:{number}", -number)
    assert all(int(client.get(f"key:{number}")) == -number for number in range(KEYS))


def run_program(command, ports, change):
    """Runs a program as the head of this file says."""
    command = [*command, *map(str, ports)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n", f"{command[0]} has failed before the map has changed"
        change()
        program.communicate("changed\n", timeout=PATIENCE_S)
    assert program.returncode == 0, f"{command} has ended with {program.returncode}"


def main():
    command = sys.argv[1:]
    with nodes() as (ports, file):
        def change():
            counts = [redis.Redis(port=port).dbsize() for port in ports]
            assert sum(counts) >= KEYS and min(counts) > KEYS / 5, counts
            change_map(ports, file)

        if command:
            run_program(command, ports, change)
        else:
            python_client(ports, change)
        removed = [redis.Redis(port=port).execute_command("SILTSTONE", "RETAIN") for port in ports]
        assert removed[0] > 0 and removed[1] > 0 and removed[2] == 0, removed
        assert sum(redis.Redis(port=port).dbsize() for port in ports) >= KEYS
    if not command:
        print("redis-py, a cluster of three nodes: passed")


if __name__ == "__main__":
    main()
