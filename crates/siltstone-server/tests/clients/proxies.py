"""Runs clients through Envoy and nutcracker over three servers: what works, and what the proxies refuse.

The configurations are those of docs/SCALE.md, with the addresses of this run. The names in `WORKS`, `REFUSED` and their
relatives are what its table states. A proxy that is not installed is skipped.
"""

import contextlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pymemcache
import redis

import servers

DOCUMENT = pathlib.Path(__file__).parents[4] / "docs/SCALE.md"
MANY = 60

# What each proxy does with the commands of one connection, in this order.
WORKS = {
    "PING": True, "SET k v": True, "GET k": b"v", "MSET a 1 b 2 c 3": True, "MGET a b x": [b"1", b"2", None],
    "DEL a b": 2, "EXISTS c": 1, "INCR n": 1, "EXPIRE n 100": True, "TTL n": 100, "APPEND k w": 2, "SETEX t 10 v": True,
    "HSET h f 1": 1, "HINCRBY h f 2": 3, "HGETALL h": {b"f": b"3"}, "GETDEL k": b"vw", "TYPE n": b"string",
    "EVAL return{KEYS[1],KEYS[2]} 2 {t}a {t}b": [b"{t}a", b"{t}b"],
}
ENVOY_WORKS = {"ECHO v": b"v", "PUBLISH channel text": 0, "SET {t}a 1": True, "RENAME {t}a {t}b": True,
               "COPY {t}b {t}c": True}
ENVOY_REFUSES = ["DBSIZE", "COMMAND", "WAIT 0 0", "SUBSCRIBE channel", "MEMORY USAGE k", "SILTSTONE RELOAD"]
NUTCRACKER_CLOSES = ["HELLO 3", "CLIENT SETINFO LIB-NAME x", "SELECT 0", "INFO", "SCAN 0", "KEYS *", "DBSIZE",
                     "FLUSHALL", "MULTI", "WATCH k", "PUBLISH channel text", "SUBSCRIBE channel", "RENAME {t}a {t}b",
                     "ECHO v", "SCRIPT LOAD return"]
MEMCACHED_CLOSES = ["gat 100 k", "gats 100 k", "stats", "flush_all", "verbosity 1", "mn", "mg k v", "md k", "ma k"]


def configuration(word, addresses):
    """Returns the configuration of the document that has the word, with other addresses in place of its own."""
    text = next(block for block in re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.S) if word in block)
    for stated, port in addresses.items():
        host, _, stated_port = stated.partition(":")
        for form in ("{}:{}", "address: {}, port_value: {}"):
            text = text.replace(form.format(host, stated_port), form.format("127.0.0.1", port))
    assert "10.0.0." not in text, text
    return text


@contextlib.contextmanager
def proxy(command, ports, text):
    """Runs a proxy with this configuration as its last argument, until its ports accept connections."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        with subprocess.Popen([*command, file.name]) as process:
            try:
                for port in ports:
                    servers.wait_for(port, process)
                yield
            finally:
                process.terminate()


def refusal(call, *kinds):
    """Returns the text of the error that the call must end with."""
    try:
        found = call()
    except kinds as error:
        return str(error)
    raise AssertionError(f"the proxy has not refused the command, but replied {found}")


def works(client, commands):
    for command, expected in commands.items():
        found = client.execute_command(*command.split())
        assert found == expected, (command, found)


def spread(client, nodes):
    """Writes keys: all servers have some of them, and those of a hash tag are on one."""
    client.mset({f"key:{number}": number for number in range(MANY)})
    assert all(node.exists(*[f"key:{number}" for number in range(MANY)]) for node in nodes)
    for number in range(MANY):
        client.set(f"{{tag}}{number}", number)
    assert sorted(node.exists(*[f"{{tag}}{number}" for number in range(MANY)]) for node in nodes) == [0, 0, MANY]


def envoy_listener(client, other, nodes):
    """Runs what Envoy takes from the clients of one protocol; `other` is a client of the other one."""
    works(client, WORKS | ENVOY_WORKS)
    spread(client, nodes)
    for command in ENVOY_REFUSES:
        found = refusal(lambda: client.execute_command(*command.split()), redis.ResponseError)
        assert "unknown command" in found, (command, found)
    assert "CLIENT" in refusal(client.client_id, redis.ResponseError)
    assert "NOPROTO" in refusal(other.ping, redis.ResponseError)
    refusal(lambda: list(client.scan_iter()), ValueError)
    # A transaction with keys of one hash tag.
    assert client.pipeline().set("{t}n", 1).incr("{t}n").execute() == [True, 2]
    # Everything of a transaction, and both keys of RENAME, are where the first key is: other keys are lost.
    pipe = client.pipeline()
    for number in range(MANY):
        pipe.set(f"lost:{number}", number)
        client.set(f"old:{number}", number)
    assert all(pipe.execute())
    assert client.mget([f"lost:{number}" for number in range(MANY)]).count(None) > 0
    assert all(client.rename(f"old:{number}", f"new:{number}") for number in range(MANY))
    assert client.mget([f"new:{number}" for number in range(MANY)]).count(None) > 0
    with client.pipeline() as pipe:
        pipe.watch("{t}n")
        pipe.multi()
        pipe.set("{t}n", 10)
        client.set("{t}n", 9)
        assert pipe.execute() == [True], "Envoy watches keys"
    # A command for all servers is sent as often as there are servers, but not once to each of them.
    client.keys("*")
    calls = [node.info("commandstats").get("cmdstat_keys", {"calls": 0})["calls"] for node in nodes]
    assert sum(calls) == len(nodes), calls
    for node in nodes:
        node.flushall()
        node.config_resetstat()


def run_envoy(program, redis_ports):
    nodes = [redis.Redis(port=port) for port in redis_ports]
    resp3, resp2 = servers.free_ports(2)
    text = configuration("redis_proxy", {f"10.0.0.{number}:6379": port for number, port in enumerate(redis_ports, 1)}
                         | {"127.0.0.1:6380": resp3, "127.0.0.1:6381": resp2})
    # One worker thread has one connection to each server, which SELECT below needs.
    command = [program, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error", "--config-path"]
    with proxy(command, (resp3, resp2), text):
        three, two = redis.Redis(port=resp3), redis.Redis(port=resp2, protocol=2)
        envoy_listener(three, redis.Redis(port=resp3, protocol=2), nodes)
        envoy_listener(two, redis.Redis(port=resp2), nodes)
        # The connections to the servers are common to all clients: SELECT of one changes the database of the others.
        assert redis.Redis(port=resp3, db=5).ping()
        for number in range(MANY):
            three.set(f"key:{number}", number)
        assert sum(redis.Redis(port=port, db=5).dbsize() for port in redis_ports) > 0


def run_nutcracker(program, redis_ports, memcached_ports):
    nodes = [redis.Redis(port=port) for port in redis_ports]
    listen, listen_memcached, statistics = servers.free_ports(3)
    addresses = {"127.0.0.1:6382": listen, "127.0.0.1:11212": listen_memcached}
    addresses |= {f"10.0.0.{number}:6379": port for number, port in enumerate(redis_ports, 1)}
    addresses |= {f"10.0.0.{number}:11211": port for number, port in enumerate(memcached_ports, 1)}
    command = [program, "--verbose", "0", "--stats-port", str(statistics), "--conf-file"]
    with proxy(command, (listen, listen_memcached), configuration("hash_tag", addresses)):
        client = redis.Redis(port=listen, protocol=2, driver_info=None, retry=None)
        works(client, WORKS)
        spread(client, nodes)
        assert client.pipeline(transaction=False).set("k", 1).incr("k").execute() == [True, 2]
        for command in NUTCRACKER_CLOSES:
            refusal(lambda: client.execute_command(*command.split()), redis.ConnectionError)
        # Defaults of redis-py begin with HELLO, and then CLIENT SETINFO or SELECT.
        for options in ({}, {"protocol": 2}, {"protocol": 2, "driver_info": None, "db": 1}):
            refusal(redis.Redis(port=listen, retry=None, **options).ping, redis.ConnectionError)
        run_memcached(pymemcache.Client(("127.0.0.1", listen_memcached), timeout=30, default_noreply=False))
        assert all(node.exists(*[f"m:{number}" for number in range(MANY)]) for node in nodes)


def run_memcached(client):
    assert client.set("k", b"1") and client.get("k") == b"1" and client.get("absent") is None
    assert not client.add("k", b"2") and client.replace("k", b"2")
    assert client.append("k", b"1") and client.prepend("k", b"1")
    value, version = client.gets("k")
    assert value == b"121" and client.cas("k", b"5", version) and client.cas("k", b"6", version) is False
    assert client.incr("k", 3) == 8 and client.decr("k", 1) == 7 and client.touch("k", 100) and client.delete("k")
    many = {f"m:{number}": b"%d" % number for number in range(MANY)}
    assert client.set_many(many) == [] and client.get_many(many) == many and client.version() == b"1.6.18"
    for command in MEMCACHED_CLOSES:
        refusal(lambda: client.raw_command(command), pymemcache.exceptions.MemcacheUnexpectedCloseError)


def main():
    envoy = shutil.which("envoy", path=pathlib.Path(sys.executable).parent) or shutil.which("envoy")
    nutcracker = shutil.which("nutcracker") or shutil.which("nutcracker", path="/usr/sbin")
    memcached_ports = servers.free_ports(3)
    with contextlib.ExitStack() as stack:
        redis_ports = [stack.enter_context(servers.siltstone("silt", "--memcached", f"127.0.0.1:{port}"))
                       for port in memcached_ports]
        for name, program, run in (("Envoy", envoy, lambda: run_envoy(envoy, redis_ports)),
                                   ("nutcracker", nutcracker,
                                    lambda: run_nutcracker(nutcracker, redis_ports, memcached_ports))):
            if program is None:
                print(f"{name} is not installed: skipped")
                continue
            run()
            print(f"{name} over three servers: passed")


if __name__ == "__main__":
    main()
