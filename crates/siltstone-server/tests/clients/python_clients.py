#!/usr/bin/env python3
"""Runs the ordinary use of the Python clients redis and valkey: python_clients.py ENGINE..."""

import sys

import redis
import valkey

import servers


def strings(client):
    assert client.set("key", "value") is True
    assert client.get("key") == b"value" and client.get("absent") is None
    assert client.set("key", "other", nx=True) is None
    assert client.set("key", "new", get=True, ex=100) == b"value"
    assert 0 < client.ttl("key") <= 100 and client.expire("key", 1000) and 0 < client.pttl("key") <= 1_000_000
    assert client.persist("key") and client.ttl("key") == -1
    assert client.mset({"one": 1, "two": 2}) and client.mget("one", "two", "three") == [b"1", b"2", None]
    assert client.incr("one") == 2 and client.incrby("one", 40) == 42 and client.incrbyfloat("two", 0.5) == 2.5
    assert client.append("key", "er") == 5 and client.getrange("key", 0, 2) == b"new" and client.strlen("key") == 5
    assert client.setbit("bits", 7, 1) == 0 and client.bitcount("bits") == 1
    assert client.bitfield("fields").set("u8", 0, 200).incrby("u8", 0, 100, "SAT").execute() == [0, 255]
    assert client.exists("key", "one", "absent") == 2 and client.type("key") == b"string"
    assert client.rename("key", "renamed") and client.copy("renamed", "copied") and client.delete("renamed") == 1
    assert client.restore("restored", 0, client.dump("copied")) and client.get("restored") == b"newer"
    large = bytes(range(256)) * 1000
    assert client.set("large", large) and client.get("large") == large


def hashes(client):
    assert client.hset("hash", mapping={"f": "1", "g": "2"}) == 2 and client.hget("hash", "f") == b"1"
    assert client.hgetall("hash") == {b"f": b"1", b"g": b"2"} and client.hmget("hash", "g", "h") == [b"2", None]
    assert client.hincrby("hash", "f", 5) == 6 and client.hincrbyfloat("hash", "f", 0.5) == 6.5
    assert dict(client.hscan_iter("hash")) == {b"f": b"6.5", b"g": b"2"}
    assert client.hdel("hash", "f", "g") == 2 and not client.exists("hash")


def pipelines(client, module):
    pipe = client.pipeline(transaction=False)
    for number in range(1000):
        pipe.set(f"many:{number}", number)
    assert pipe.execute() == [True] * 1000
    assert sorted(client.scan_iter("many:*", count=100)) == sorted(b"many:%d" % number for number in range(1000))
    assert len(client.keys("many:99*")) == 11
    with client.pipeline() as pipe:
        pipe.watch("many:1")
        value = int(pipe.get("many:1"))
        pipe.multi()
        pipe.set("many:1", value + 1)
        client.set("many:1", 5)
        try:
            pipe.execute()
            raise AssertionError("a watched key has changed")
        except module.WatchError:
            pass

    def increment(pipe):
        value = int(pipe.get("many:1"))
        pipe.multi()
        pipe.set("many:1", value + 1)

    assert client.transaction(increment, "many:1") == [True] and client.get("many:1") == b"6"
    pipe = client.pipeline()
    pipe.set("text", "a").incr("text").get("text")
    results = pipe.execute(raise_on_error=False)
    assert results[0] is True and isinstance(results[1], module.ResponseError) and results[2] == b"a"


def failures(client, module):
    client.set("text", "a")
    for call in (lambda: client.incr("text"), lambda: client.hget("text", "f"), lambda: client.execute_command("NOSUCH"),
                 lambda: client.execute_command("GET"), lambda: client.lpush("list", "a")):
        try:
            call()
        except module.ResponseError:
            continue
        raise AssertionError("a command that cannot succeed has not failed")


def about(client):
    assert client.ping() and client.echo("text") == b"text"
    assert client.info()["redis_mode"] == "standalone" and client.config_get("databases") == {"databases": "16"}
    assert client.client_setname("me") and client.client_getname() in ("me", b"me") and client.client_id() > 0
    assert client.time()[0] > 0 and client.command_count() > 80 and "get" in client.command()


def scripts(client, module):
    lock = client.lock("lock", timeout=10)
    assert lock.acquire(blocking=False) and not client.lock("lock").acquire(blocking=False)
    assert lock.owned() and lock.extend(10) and 10_000 < client.pttl("lock") <= 20_000 and lock.reacquire()
    lock.release()
    assert not client.exists("lock")
    try:
        lock.release()
        raise AssertionError("a lock was released twice")
    except module.exceptions.LockError:
        pass
    add = client.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    assert add(keys=["sum"], args=[40]) == 40 and add(keys=["sum"], args=[2]) == 42
    assert client.script_flush() and add(keys=["sum"], args=[1]) == 43
    sha = client.script_load("return {KEYS[1], ARGV[1]}")
    assert client.script_exists(sha, "0" * 40) == [True, False]
    assert client.evalsha(sha, 1, "key", "argument") == [b"key", b"argument"]
    with client.pipeline() as pipe:
        add(keys=["sum"], args=[1], client=pipe)
        pipe.get("sum")
        assert pipe.execute() == [44, b"44"]
    try:
        client.eval("return redis.call('get', 'other')", 1, "key")
        raise AssertionError("a script has used a key that it does not name")
    except module.ResponseError as error:
        assert "KEYS" in str(error)


def run(module, name, port):
    for options in ({}, {"protocol": 3}, {"db": 5}):
        client = getattr(module, name)(port=port, **options)
        strings(client)
        hashes(client)
        pipelines(client, module)
        failures(client, module)
        about(client)
        scripts(client, module)
        assert client.dbsize() > 1000 and client.flushdb() and client.dbsize() == 0
        client.close()


def run_with_password(module, name):
    import pathlib
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "password"
        file.write_text("secret\n")
        with servers.siltstone("silt", "--password-file", str(file)) as port:
            for options in ({}, {"username": "default"}, {"protocol": 3}):
                assert getattr(module, name)(port=port, password="secret", **options).ping()
            try:
                getattr(module, name)(port=port, password="wrong").ping()
                raise AssertionError("a wrong password was accepted")
            except module.AuthenticationError:
                pass


for engine in sys.argv[1:] or servers.ENGINES:
    with servers.siltstone(engine) as port:
        for module, name in ((redis, "Redis"), (valkey, "Valkey")):
            run(module, name, port)
            print(f"Python, {module.__name__} {module.__version__}: {engine} passed")
for module, name in ((redis, "Redis"), (valkey, "Valkey")):
    run_with_password(module, name)
