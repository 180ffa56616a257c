"""Runs the cluster client of redis-py over three nodes, also while the map of slots changes."""

import json
import os
import pathlib
import socket
import subprocess
import tempfile

import redis
from redis.cluster import RedisCluster

KEYS = 1000


def free_ports(count):
    """Returns ports that nothing listens at."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listening.getsockname()[1] for listening in sockets]
    for listening in sockets:
        listening.close()
    return ports


def write_map(file, slots):
    """Replaces the map by one with these slots of each port."""
    new = file.with_suffix(".new")
    new.write_text("".join(f"127.0.0.1:{port} {ranges}\n" for port, ranges in slots.items()))
    new.replace(file)


def check(ports, file):
    client = RedisCluster(host="127.0.0.1", port=ports[0])
    for number in range(KEYS):
        assert client.set(f"key:{number}", number)
    counts = [redis.Redis(port=port).dbsize() for port in ports]
    assert sum(counts) == KEYS and min(counts) > KEYS / 5, counts
    assert client.mget_nonatomic(["key:1", "key:2"]) == [b"1", b"2"]
    assert client.mset({"{tag}a": 1, "{tag}b": 2}) and client.mget("{tag}a", "{tag}b") == [b"1", b"2"]
    assert client.eval("return redis.call('INCR', KEYS[1])", 1, "counter") == 1
    # The first two nodes change their slots; what they have is found under the new owner only if it is written again.
    write_map(file, {ports[0]: "5461-10922", ports[1]: "0-5460", ports[2]: "10923-16383"})
    for port in ports:
        assert redis.Redis(port=port).execute_command("SILTSTONE", "RELOAD") == 0
    for number in range(KEYS):
        assert client.set(f"key:{number}", -number)
    assert all(int(client.get(f"key:{number}")) == -number for number in range(KEYS))
    removed = [redis.Redis(port=port).execute_command("SILTSTONE", "RETAIN") for port in ports]
    assert removed[0] > 0 and removed[1] > 0 and removed[2] == 0, removed
    assert sum(redis.Redis(port=port).dbsize() for port in ports) >= KEYS


def main():
    program, ports = os.environ["SERVED_PROGRAM"], free_ports(3)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "map"
        write_map(file, {ports[0]: "0-5460", ports[1]: "5461-10922", ports[2]: "10923-16383"})
        servers = []
        try:
            for port in ports:
                command = [program, "serve", "data", f"{folder}/{port}", "--redis", f"127.0.0.1:{port}"]
                command += ["--cluster", str(file), "--json"]
                servers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
                json.loads(servers[-1].stdout.readline())
            check(ports, file)
        finally:
            for server in servers:
                server.terminate()
                server.wait(60)
    print("redis-py, a cluster of three nodes: passed")


if __name__ == "__main__":
    main()
