"""Caches of other packages over a database: the page about them, and what it does not show."""

import doctest
import http.server
import pathlib
import threading

import pytest
import siltstone

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture
def url():
    """The address of a page, whose path /moved leads to it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302 if self.path == "/moved" else 200)
            self.send_header("Content-Length", "2")
            self.send_header("Location", "/page")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/page"
        server.shutdown()
        thread.join()


def test_the_examples_of_the_page_run(tmp_path, monkeypatch, url):
    for package in ("dogpile.cache", "cachetools", "requests_cache"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    page = str(ROOT / "docs/python/caches.md")
    result = doctest.testfile(page, module_relative=False, globs={"url": url, "__name__": "page"})
    assert result.failed == 0 and result.attempted > 15


def test_a_region_of_dogpile_has_all_its_operations(path):
    pytest.importorskip("dogpile.cache")
    from dogpile.cache import make_region
    from dogpile.cache.api import NO_VALUE

    with siltstone.open(path, keys="str", values="pickle") as db:
        region = make_region().configure("dogpile.cache.memory", arguments={"cache_dict": db})
        region.set("a", {"x": (1,)})
        region.set_multi({"b": None, "c": b"3"})
        assert region.get_multi(["a", "b", "c", "d"]) == [{"x": (1,)}, None, b"3", NO_VALUE]
        region.delete("a")
        region.delete_multi(["b", "nothing"])
        assert region.get("a") is NO_VALUE and list(db) == ["c"]
        assert region.get_or_create_multi(["c", "e"], lambda *keys: [key * 2 for key in keys]) == [b"3", "ee"]
        region.invalidate()
        assert region.get("c") is NO_VALUE and region.get_or_create("c", lambda: 5) == 5


def test_responses_and_redirects_of_requests_are_kept_and_removed(path, url):
    pytest.importorskip("requests_cache")
    from requests_cache import CachedSession
    from requests_cache.backends.base import BaseCache, DictStorage

    backend = BaseCache()
    for name in ("responses", "redirects"):
        storage = DictStorage()
        storage.data = siltstone.open(path + name, keys="str", values="pickle")
        setattr(backend, name, storage)
    with CachedSession(backend=backend, expire_after=3600) as session:
        moved = url.replace("page", "moved")
        first, second = session.get(moved), session.get(moved)
        assert not first.from_cache and second.from_cache and second.text == "ok" and second.url == url
        assert session.get(url).from_cache and len(session.cache.redirects) == 1
        assert session.cache.contains(url=url) and {response.url for response in session.cache.filter()} == {url}
        session.cache.delete(urls=[url])
        assert not session.cache.contains(url=url) and not session.get(url).from_cache
        session.cache.clear()
        assert len(session.cache.responses) == 0 and len(session.cache.redirects) == 0
    for storage in (backend.responses, backend.redirects):
        storage.data.close()
