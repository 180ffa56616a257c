"""Runs Python libraries that use Redis, with their default settings.

    libraries.py ENGINE...        all of them, each in a process of its own
    libraries.py --one NAME PORT  one of them, with a server at a port

What a library does here is its ordinary use. Those that need commands that the server does not have are expected to fail
with the error that names the command; if one of them passes, or fails in another way, that is an error too.
"""

import asyncio
import re
import subprocess
import sys

import servers

PATIENCE_S = 120

LIBRARIES = {}


def library(*packages, needs=None):
    """Registers a function: the packages that it imports, and a command without which they cannot work."""

    def add(function):
        LIBRARIES[function.__name__] = (function, packages, needs)
        return function

    return add


@library("redis==7.4.1")
def redis_lock(url):
    import redis

    client = redis.from_url(url)
    with client.lock("job", timeout=10) as lock:
        assert client.lock("job", timeout=10).acquire(blocking=False) is False
        assert lock.extend(20) and lock.reacquire() and lock.owned()
    assert client.lock("job").acquire(blocking=False)
    add = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    assert add(keys=["sum"], args=[5]) == 5 and add(keys=["sum"], args=[6]) == 11


def django_settings(url, backend):
    from django.conf import settings

    settings.configure(
        CACHES={"default": {"BACKEND": backend, "LOCATION": url}},
        SESSION_ENGINE="django.contrib.sessions.backends.cache",
        USE_TZ=True,
    )


def use_django_cache():
    from django.core.cache import cache

    cache.set("a", {"b": [1, 2]}, 100)
    assert cache.get("a") == {"b": [1, 2]} and cache.get("c", "default") == "default"
    assert cache.add("a", 1) is False and cache.add("n", 1) and cache.incr("n", 4) == 5 and cache.decr("n") == 4
    cache.set_many({"x": 1, "y": 2})
    assert cache.get_many(["x", "y", "z"]) == {"x": 1, "y": 2}
    assert cache.touch("a", 1000) and cache.has_key("a") and cache.delete("a") and cache.get("a") is None
    assert cache.get_or_set("lazy", lambda: 7) == 7
    cache.delete_many(["x", "y"])
    cache.clear()
    assert cache.get("n") is None


@library("django==5.2.19", "redis==7.4.1")
def django(url):
    django_settings(url, "django.core.cache.backends.redis.RedisCache")
    use_django_cache()
    from django.contrib.sessions.backends.cache import SessionStore

    session = SessionStore()
    session["user"] = 7
    session.save()
    assert SessionStore(session.session_key)["user"] == 7
    session.delete()


@library("django-redis==7.0.0", "django==5.2.19")
def django_redis(url):
    django_settings(url, "django_redis.cache.RedisCache")
    use_django_cache()
    from django.core.cache import cache

    cache.set("a1", 1)
    cache.set("a2", 2)
    assert sorted(cache.keys("a*")) == ["a1", "a2"] and cache.ttl("a1") > 0 and cache.delete_pattern("a*") == 2
    with cache.lock("job", timeout=10):
        assert cache.set("in", 1)


@library("flask-caching==2.5.1", "flask==3.1.2", "redis==7.4.1")
def flask_caching(url):
    import flask
    from flask_caching import Cache

    app = flask.Flask("app")
    cache = Cache(app, config={"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": url})
    with app.app_context():
        assert cache.set("a", [1]) and cache.get("a") == [1] and cache.add("a", 2) is False
        cache.set_many({"x": 1, "y": 2})
        assert cache.get_many("x", "y") == [1, 2] and cache.delete("x") and cache.clear()


@library("flask-session==0.8.0", "flask==3.1.2", "redis==7.4.1")
def flask_session(url):
    import flask
    import redis
    from flask_session import Session

    app = flask.Flask("app")
    app.config.update(SESSION_TYPE="redis", SESSION_REDIS=redis.from_url(url), SECRET_KEY="secret")
    Session(app)

    @app.route("/")
    def count():
        flask.session["visits"] = flask.session.get("visits", 0) + 1
        return str(flask.session["visits"])

    with app.test_client() as client:
        assert [client.get("/").text for _ in range(3)] == ["1", "2", "3"]


@library("aiocache[redis]==0.12.3")
def aiocache(url):
    import aiocache

    host, port = url.removeprefix("redis://").split("/")[0].split(":")

    async def use():
        cache = aiocache.Cache(aiocache.Cache.REDIS, endpoint=host, port=int(port))
        assert await cache.set("a", "1", ttl=10) and await cache.get("a") == "1" and await cache.exists("a")
        assert await cache.multi_set([("x", "1"), ("y", "2")]) and await cache.multi_get(["x", "y"]) == ["1", "2"]
        assert await cache.increment("n", 5) == 5 and await cache.expire("a", 100) and await cache.delete("a") == 1
        async with aiocache.lock.RedLock(cache, "job", lease=2):
            await cache.set("in", "1")
        await cache.close()

    asyncio.run(use())


@library("requests-cache==1.3.3", "redis==7.4.1")
def requests_cache(url):
    import redis
    from requests_cache import CachedResponse
    from requests_cache.backends import RedisDict, RedisHashDict

    responses = RedisDict("cache", connection=redis.from_url(url))
    responses["a"] = CachedResponse(status_code=200)
    assert responses["a"].status_code == 200 and list(responses) == ["a"] and len(responses) == 1
    responses.clear()
    redirects = RedisHashDict("cache", connection=redis.from_url(url))
    redirects["a"] = "b"
    assert redirects["a"] == "b" and list(redirects) == ["a"] and len(redirects) == 1
    del redirects["a"]
    redirects.clear()


@library("limits[redis]==5.8.0")
def limits(url):
    from limits import parse, storage, strategies

    limiter = strategies.FixedWindowRateLimiter(storage.storage_from_string(url))
    limit = parse("3/minute")
    assert [limiter.hit(limit, "user") for _ in range(4)] == [True, True, True, False]
    assert limiter.get_window_stats(limit, "user").remaining == 0


@library("limits[redis]==5.8.0", needs="LPUSH|LINDEX|LRANGE")
def limits_moving_window(url):
    from limits import parse, storage, strategies

    limiter = strategies.MovingWindowRateLimiter(storage.storage_from_string(url))
    assert limiter.hit(parse("3/minute"), "user")


@library("flask-limiter==4.1.1", "limits[redis]==5.8.0")
def flask_limiter(url):
    import flask
    from flask_limiter import Limiter
    from flask_limiter.util import get_remote_address

    app = flask.Flask("app")
    Limiter(get_remote_address, app=app, storage_uri=url, default_limits=["2 per minute"])
    app.route("/")(lambda: "yes")
    with app.test_client() as client:
        assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]


@library("dogpile.cache==1.5.0", "redis==7.4.1")
def dogpile(url):
    from dogpile.cache import make_region

    region = make_region().configure(
        "dogpile.cache.redis", expiration_time=100, arguments={"url": url, "distributed_lock": True, "thread_local_lock": False}
    )
    assert region.get_or_create("a", lambda: 5) == 5 and region.get("a") == 5
    region.set_multi({"x": 1, "y": 2})
    assert region.get_multi(["x", "y"]) == [1, 2]
    region.delete("a")


@library("cashews[redis]==7.6.0")
def cashews(url):
    from cashews import cache

    async def use():
        cache.setup(url)
        await cache.set("a", 1, expire=10)
        assert await cache.get("a") == 1 and await cache.incr("n") == 1
        async with cache.lock("job", expire=10):
            await cache.set("in", 1)

        @cache(ttl="1m", key="f:{number}")
        async def double(number):
            return 2 * number

        assert [await double(2), await double(2)] == [4, 4]
        await cache.delete_match("f:*")
        await cache.clear()
        await cache.close()

    asyncio.run(use())


@library("fastapi-cache2==0.2.2", "redis==7.4.1")
def fastapi_cache(url):
    import redis.asyncio
    from fastapi_cache.backends.redis import RedisBackend

    async def use():
        backend = RedisBackend(redis.asyncio.from_url(url))
        await backend.set("space:a", b"1", 100)
        assert await backend.get("space:a") == b"1" and (await backend.get_with_ttl("space:a"))[0] > 0
        # A whole namespace is cleared by a script that calls KEYS, which the server refuses.
        assert await backend.clear(key="space:a") == 1

    asyncio.run(use())


@library("celery[redis]==5.7.0")
def celery_results(url):
    from celery import Celery, states

    app = Celery(backend=url)
    app.backend.store_result("task", {"a": 1}, states.SUCCESS)
    assert app.AsyncResult("task").get(timeout=10) == {"a": 1}
    app.AsyncResult("task").forget()


@library("celery[redis]==5.7.0", needs="BRPOP|SADD|LPUSH|SMEMBERS")
def celery_broker(url):
    from celery import Celery

    app = Celery(broker=url)
    app.send_task("task", retry=False)


@library("python-redis-lock==4.0.1", "redis==7.4.1", needs="LPUSH|BLPOP|DEL|lpush")
def python_redis_lock(url):
    import redis
    import redis_lock

    with redis_lock.Lock(redis.from_url(url), "job"):
        pass


@library("rq==3.0.0", needs="SADD|RPUSH|ZADD|XADD|LPUSH")
def rq(url):
    import redis
    from rq import Queue

    Queue(connection=redis.from_url(url)).enqueue(print, "job")


@library("huey==3.5.4", "redis==7.4.1", needs="LPUSH|RPUSH|ZADD")
def huey(url):
    from huey import RedisHuey

    queue = RedisHuey("queue", url=url)
    queue.task()(lambda: 1)()


@library("dramatiq[redis]==2.2.1", needs="EVAL|RPUSH|HSET|ZADD|LPUSH|rpush|zadd")
def dramatiq(url):
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=url)
    dramatiq.set_broker(broker)
    dramatiq.actor(lambda: None, actor_name="job").send()


@library("channels-redis==4.3.0", needs="ZADD|BZPOPMIN|ZREMRANGEBYSCORE")
def channels_redis(url):
    from channels_redis.core import RedisChannelLayer

    async def use():
        layer = RedisChannelLayer(hosts=[url])
        await layer.send("channel", {"type": "hello"})
        assert (await layer.receive("channel"))["type"] == "hello"

    asyncio.run(use())


def run(name, port):
    """Runs a library in a process of its own. Returns what is wrong, or None."""
    _, _, needs = LIBRARIES[name]
    command = [sys.executable, __file__, "--one", name, str(port)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return f"has not ended within {PATIENCE_S} s"
    missing = re.search(r"unknown (?:Redis )?command '?(\w+)|Unknown Redis command", ended.stderr + ended.stdout)
    if needs is None:
        return None if ended.returncode == 0 else ended.stderr.strip()[-2000:]
    if ended.returncode == 0:
        return f"passes, although it needs {needs}"
    return None if missing else f"fails for another reason than {needs}: {ended.stderr.strip()[-2000:]}"


def main():
    if sys.argv[1] == "--one":
        LIBRARIES[sys.argv[2]][0](f"redis://127.0.0.1:{sys.argv[3]}/0")
        return
    if sys.argv[1] == "--packages":
        print(*sorted({package for _, packages, _ in LIBRARIES.values() for package in packages}))
        return
    wrong = 0
    for engine in sys.argv[1:]:
        for name, (_, _, needs) in LIBRARIES.items():
            with servers.siltstone(engine) as port:
                problem = run(name, port)
            wrong += problem is not None
            print(f"{engine} {name}: {problem or (f'needs {needs}' if needs else 'passed')}", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
