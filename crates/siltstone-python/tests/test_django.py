"""`siltstone.django`: the cache backend, and Django's own tests of cache backends."""

import asyncio
import doctest
import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import pytest
import siltstone

pytest.importorskip("django")
from django.core.cache import CacheHandler  # noqa: E402
from django.core.cache.backends.base import CacheKeyWarning  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402
from siltstone.django import close_databases  # noqa: E402

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture
def make(path):
    """Makes a cache in a directory, with settings of Django."""

    def make_one(location=path, **settings):
        settings = {"BACKEND": "siltstone.django.SiltstoneCache", "LOCATION": location, **settings}
        return CacheHandler({"default": settings})["default"]

    yield make_one
    close_databases()


class Custom:
    """A value of a class."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return self.name == other.name


@pytest.mark.parametrize("value", [None, 0, True, 1.5, 2**70, "ä", b"\0", [1, {"a": (2,)}], {3}, Custom("x")])
def test_values_of_any_type_come_back(make, value):
    cache = make()
    cache.set("key", value)
    assert cache.get("key", "default") == value and "key" in cache
    assert cache.get("other", "default") == "default"


def test_a_timeout_that_has_passed_removes_the_key(make):
    cache = make(TIMEOUT=60)
    database = cache.database
    cache.set("default", 1)
    cache.set("never", 1, timeout=None)
    cache.set("later", 1, timeout=5)
    assert 59 < database.ttl(":1:default") <= 60 and 4 < database.ttl(":1:later") <= 5
    assert database.ttl(":1:never") == float("inf")
    assert cache.touch("later", None) and database.ttl(":1:later") == float("inf")
    assert cache.touch("never", 7) and 6 < database.ttl(":1:never") <= 7 and not cache.touch("nothing", 5)
    for gone in (0, -1):
        cache.set("later", 2, timeout=gone)
        assert "later" not in cache and cache.add("later", 3, timeout=gone) and "later" not in cache
        cache.set_many({"default": 1, "later": 1}, timeout=gone)
        assert "default" not in cache
    assert not cache.add("never", 3, timeout=0) and cache.touch("never", 0) and "never" not in cache


def test_versions_prefixes_and_key_functions_make_the_keys(make):
    cache, prefixed = make(), make(KEY_PREFIX="site")
    other = make(KEY_FUNCTION=lambda key, prefix, version: f"{version}/{key}")
    cache.set("a", 1)
    cache.set("a", 2, version=2)
    prefixed.set("a", 3)
    other.set("a", 4)
    assert sorted(cache.database) == ["1/a", ":1:a", ":2:a", "site:1:a"]
    assert cache.incr_version("a") == 2 and cache.get("a", version=2) == 1 and "a" not in cache
    assert prefixed.get("a") == 3 and other.get("a") == 4
    with pytest.warns(CacheKeyWarning):
        cache.set("with a space", 1)


def test_add_delete_and_many(make):
    cache = make()
    assert cache.add("a", 1) and not cache.add("a", 2) and cache.get("a") == 1
    assert cache.delete("a") and not cache.delete("a")
    assert cache.set_many({"a": 1, "b": None, 3: "c"}) == []
    assert cache.get_many(["a", "b", 3, "d"]) == {"a": 1, "b": None, 3: "c"}
    cache.delete_many(["a", 3, "d"])
    assert cache.get_many(["a", "b", 3]) == {"b": None}
    cache.clear()
    assert "b" not in cache


def test_incr_is_atomic_and_keeps_the_timeout(make, path):
    cache = make()
    cache.set("n", 0, timeout=50)
    cache.set("half", 0.5)

    def work():
        own = make()  # Django has a cache per thread
        for _ in range(50):
            own.incr("n", 2)
            own.decr("n")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.get("n") == 400 and 40 < cache.database.ttl(":1:n") <= 50
    assert cache.incr("half", 1.5) == 2
    with pytest.raises(ValueError, match="'nothing' not found"):
        cache.incr("nothing")


@pytest.mark.parametrize(
    ("meanwhile", "value", "timeout"),
    [
        (lambda cache: cache.set_many({"n": 10}, timeout=5000), 11, 5000),
        (lambda cache: cache.set("n", 10, timeout=None), 11, None),
        (lambda cache: cache.set("n", 1, timeout=5000), 2, 5000),  # the same value
        (lambda cache: cache.touch("n", 5000), 2, 5000),
        (lambda cache: cache.delete_many(["n"]), None, None),
    ],
)
def test_incr_overwrites_no_write_that_happens_meanwhile(make, meanwhile, value, timeout):
    cache = make()
    cache.set("n", 1, timeout=50)
    writes = [meanwhile]

    class One:
        def __radd__(self, number):
            if writes:
                writes.pop()(cache)
            return number + 1

    if value is None:
        with pytest.raises(ValueError, match="'n' not found"):
            cache.incr("n", One())
        assert "n" not in cache
    else:
        assert cache.incr("n", One()) == value == cache.get("n")
        seconds = cache.database.ttl(":1:n")
        assert seconds == float("inf") if timeout is None else timeout - 10 < seconds <= timeout


def test_the_database_outlives_the_cache_of_a_thread(make, path):
    make().set("a", 1)
    with pytest.raises(siltstone.LockedError, match="this process"):
        siltstone.open(path, keys="str", values="pickle")
    close_databases()
    with siltstone.open(path, keys="str", values="pickle") as db:
        assert db[":1:a"] == 1
    assert make().get("a") == 1
    assert os.stat(path).st_mode & 0o777 == 0o700


def test_another_process_gets_an_error_with_the_remedy(make, path):
    make().set("a", 1)
    program = f"""
        from django.core.cache import CacheHandler
        settings = {{"BACKEND": "siltstone.django.SiltstoneCache", "LOCATION": {path!r}}}
        try:
            CacheHandler({{"default": settings}})["default"].get("a")
        except Exception as error:
            print(type(error).__name__, error, error.remedy)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("LockedError") and done.stdout.count("siltstone serve data") == 2, done.stdout


def test_a_child_of_a_fork_opens_what_its_parent_has_closed(make):
    cache = make()
    cache.set("a", 1)

    def in_child():
        child = os.fork()
        if child == 0:
            try:
                os._exit(7 if cache.get("a") == 1 else 8)
            except siltstone.LockedError as error:
                os._exit(9 if "siltstone serve data" in str(error) else 10)
            finally:
                os._exit(11)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert in_child() == 9
    close_databases()
    assert in_child() == 7
    assert cache.get("a") == 1


def test_options_that_cannot_take_effect_are_errors(make, path):
    for options in ({"MAX_ENTRIES": 10}, {"CULL_FREQUENCY": 3}, {"keys": "bytes"}, {"values": "json"}):
        with pytest.raises(ImproperlyConfigured, match=next(iter(options))):
            make(OPTIONS=options)
    with pytest.raises(ImproperlyConfigured, match="LOCATION"):
        make(location="")
    with pytest.raises(siltstone.SettingError, match="unknown"):
        make(OPTIONS={"unknown": 1}).get("a")
    make(OPTIONS={"memory_budget": "64MiB"}).set("a", 1)
    with pytest.raises(siltstone.SettingError, match="the same ones"):
        make(OPTIONS={"memory_budget": "32MiB"}).get("a")


def test_asynchronous_methods(make):
    cache = make()

    async def main():
        await cache.aset("a", 1)
        await cache.atouch("a", 50)
        assert await cache.aadd("a", 2) is False and await cache.aincr("a") == 2 and await cache.adecr("a") == 1
        assert cache.database.ttl(":1:a") <= 50
        assert await cache.aset_many({"b": 2, "c": 3}, timeout=60) == []
        assert await cache.aget_many(["a", "b", "d"]) == {"a": 1, "b": 2} and await cache.ahas_key("a")
        await cache.adelete_many(["b", "d"])
        assert sorted(cache.database) == [":1:a", ":1:c"] and await cache.aget_or_set("b", lambda: 4) == 4
        await cache.aclear()
        return await cache.aget("a", "gone")

    assert asyncio.run(main()) == "gone"


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        result = doctest.testfile(str(ROOT / "docs/python/django.md"), module_relative=False)
    finally:
        close_databases()
    assert result.failed == 0 and result.attempted > 10


# Django's own tests, from its source release, which `test` of this crate downloads with SILTSTONE_PYTHON_ALL=1.

SUITE = """
import sys, tempfile, unittest
import django
from django.conf import settings

database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["cache"], SECRET_KEY="x", USE_TZ=False)
django.setup()
from cache.tests import BaseCacheTests, caches_setting_for_tests
from django.test import TestCase, override_settings
from django.test.runner import DiscoverRunner

# As for memcached, which has no culling either.
CACHES = caches_setting_for_tests(
    BACKEND="siltstone.django.SiltstoneCache", LOCATION=tempfile.mkdtemp(), exclude={"cull", "zero_cull"}
)

@override_settings(CACHES=CACHES)
class SiltstoneCacheTests(BaseCacheTests, TestCase):
    pass

runner = DiscoverRunner()
runner.setup_test_environment()
runner.setup_databases()
result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(SiltstoneCacheTests))
print(result.testsRun, sorted(test._testMethodName for test, _ in result.skipped))
sys.exit(not result.wasSuccessful())
"""


def test_djangos_own_tests_pass_except_those_of_culling(tmp_path):
    sources = list((ROOT / "target/python-sources").glob("[dD]jango-*/tests"))
    if not sources or "SILTSTONE_PYTHON_ALL" not in os.environ:
        pytest.skip("needs the source release of Django (make test-python-all)")
    # What is imported from the current directory or by PYTHONPATH of the tests stays so.
    paths = os.pathsep.join([str(sources[0]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SUITE], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    culling = ["test_cull", "test_cull_delete_when_store_empty", "test_zero_cull"]
    count, skipped = done.stdout.split(" ", 1)
    assert int(count) >= 54 and skipped.strip() == str(culling), done.stdout
