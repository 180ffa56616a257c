"""Opens the page of a server's metrics in headless Chromium, wide and narrow, and looks at what it has drawn."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import redis

CHARTS = 9


def dom(browser, url, width):
    """Returns what the page has become after some seconds of its own time."""
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command += [f"--user-data-dir={profile}", f"--window-size={width},900", "--virtual-time-budget=9000"]
        shown = subprocess.run([*command, "--dump-dom", url], capture_output=True, text=True, timeout=120, check=True)
        return shown.stdout


def main():
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("Chromium is not installed: the page of the metrics is skipped")
        return
    program = os.environ["SERVED_PROGRAM"]
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "serve", "data", folder, "--redis", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
        with subprocess.Popen([*command, "--memory", "64MiB", "--json"], stdout=subprocess.PIPE, text=True) as server:
            try:
                started = json.loads(server.stdout.readline())
                client = redis.Redis(port=int(started["redis"].rpartition(":")[2]))
                for number in range(100):
                    client.set(f"key:{number}", "value")
                for width in (1200, 400):
                    page = dom(browser, f"http://{started['metrics']}/", width)
                    assert page.count("<svg") == CHARTS, f"{page.count('<svg')} charts at {width} pixels"
                    assert not re.search(r'id="state"[^>]*class="lost"', page), "the page has lost the server"
                    assert "<b>100</b><span>records" in page, "the number of records is not shown"
            finally:
                server.terminate()
                server.wait(60)
    print("Chromium, the page of the metrics: passed")


if __name__ == "__main__":
    sys.exit(main())
