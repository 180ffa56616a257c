#!/usr/bin/env python3
"""Runs the ordinary use of the Python clients redis and valkey: python_clients.py ENGINE..."""

import pathlib
import subprocess
import sys
import tempfile

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


def messages(client):
    with client.pubsub() as subscriber:
        subscriber.subscribe("news")
        subscriber.psubscribe("n*")
        assert [subscriber.get_message(timeout=10)["type"] for _ in range(2)] == ["subscribe", "psubscribe"]
        assert client.publish("news", "text") == 2 and client.pubsub_channels() == [b"news"]
        found = [subscriber.get_message(timeout=10) for _ in range(2)]
        assert [(message["type"], message["data"]) for message in found] == [("message", b"text"), ("pmessage", b"text")]
        subscriber.unsubscribe()
        subscriber.punsubscribe()
        assert [subscriber.get_message(timeout=10)["data"] for _ in range(2)] == [1, 0]
        assert client.publish("news", "text") == 0


def administration(client):
    assert any(entry["cmd"] == "client|list" for entry in client.client_list())
    assert client.config_set("slowlog-max-len", 64) and client.config_get("slowlog-max-len") == {"slowlog-max-len": "64"}
    assert client.slowlog_reset() and client.slowlog_get() == [] and client.slowlog_len() == 0
    assert client.memory_usage("absent") is None and client.info("commandstats")["cmdstat_ping"]["calls"] > 0
    with client.monitor() as monitor:
        client.get("absent")
        assert monitor.next_command()["command"] == "GET absent"


def run(module, name, port, **common):
    for options in ({}, {"protocol": 3}, {"db": 5}):
        client = getattr(module, name)(port=port, **common, **options)
        strings(client)
        hashes(client)
        pipelines(client, module)
        failures(client, module)
        about(client)
        messages(client)
        administration(client)
        scripts(client, module)
        assert client.dbsize() > 1000 and client.flushdb() and client.dbsize() == 0
        client.close()


def run_with_password(module, name):
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


def make_certificate(folder, name, *options):
    """Makes a certificate and its key, as docs/SERVER.md does."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", f"/CN={name}", *options, "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return certificate, key


def ask(*command, text=None):
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


def run_with_tls():
    """Runs the Python clients, redis-cli and openssl s_client with TLS, with certificates of clients and with users."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        leaf = ["-addext", "basicConstraints=critical,CA:FALSE"]
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        certificate, key = make_certificate(folder, "localhost", *names, *leaf)
        authority, authority_key = make_certificate(folder, "clients")
        identity = make_certificate(folder, "app", *leaf, "-CA", authority, "-CAkey", authority_key)
        users = folder / "users.acl"
        users.write_text("user alice on >secret ~* -@all +@read +@connection +acl|whoami\n")
        files = ["--tls-cert", certificate, "--tls-key", key]
        with servers.siltstone("silt", *files, listen="tls:127.0.0.1:0") as port:
            for module, client in ((redis, "Redis"), (valkey, "Valkey")):
                run(module, client, port, ssl=True, ssl_ca_certs=certificate)
            address = ["-p", str(port), "--tls", "--cacert", certificate]
            assert ask("redis-cli", *address, "SET", "key", "value") == "OK\n"
            assert ask("redis-cli", *address, "GET", "key") == "value\n"
            session = ["openssl", "s_client", "-quiet", "-verify_return_error", "-CAfile", certificate]
            for version in ("-tls1_2", "-tls1_3"):
                reply = ask(*session, version, "-connect", f"localhost:{port}", text="PING\r\nQUIT\r\n")
                assert reply == "+PONG\n+OK\n", reply
        with servers.siltstone("silt", *files, "--tls-ca", authority, "--users", users, listen="tls:0.0.0.0:0") as port:
            options = {"port": port, "ssl": True, "ssl_ca_certs": certificate, "username": "alice", "password": "secret"}
            client = redis.Redis(**options, ssl_certfile=identity[0], ssl_keyfile=identity[1])
            assert client.ping() and client.get("key") is None and client.acl_whoami() in ("alice", b"alice")
            try:
                client.set("key", "value")
                raise AssertionError("a command was executed that is not allowed")
            except redis.exceptions.NoPermissionError:
                pass
            try:
                redis.Redis(**options).ping()
                raise AssertionError("a client without a certificate was accepted")
            except redis.ConnectionError:
                pass


def run_at_unix_socket():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/siltstone.sock"
        with servers.siltstone("silt", "--unix-permissions", "700", listen=f"unix:{path}"):
            client = redis.Redis(unix_socket_path=path)
            strings(client)
            pipelines(client, redis)
            assert ask("redis-cli", "-s", path, "PING") == "PONG\n"


for engine in sys.argv[1:] or servers.ENGINES:
    with servers.siltstone(engine) as port:
        for module, name in ((redis, "Redis"), (valkey, "Valkey")):
            run(module, name, port)
            print(f"Python, {module.__name__} {module.__version__}: {engine} passed")
for module, name in ((redis, "Redis"), (valkey, "Valkey")):
    run_with_password(module, name)
run_with_tls()
print("TLS: the Python clients, redis-cli, openssl s_client passed")
run_at_unix_socket()
print("Unix sockets: the Python client redis, redis-cli passed")
