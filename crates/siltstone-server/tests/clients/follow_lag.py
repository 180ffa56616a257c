#!/usr/bin/env python3
"""Measures how far `siltstone follow` is behind a server that is written to: follow_lag.py [--rate N] [--seconds S]

1. A process sets keys of the source at the rate, in pipelines of a hundredth of a second, until the end.
2. Each 100 ms `follow_lag_ms` of the copy is noted. It is how long writes may be missing. The delay, how long a marker
   that was set at the source needs to be seen at the copy, is noted too.
3. The copy is killed (SIGKILL) and started again after a second, and then the source. The time to catch up is from the
   start until the copy has a marker that was set at the source then.
4. The writes end. The copy must have what the source has.

It prints one line of JSON, and a sentence. SERVED_PROGRAM is the program.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import socket
import statistics
import subprocess
import tempfile
import time

import redis

import servers

KEYS = 100_000
VALUE = b"v" * 100
PIPELINES_PER_S = 100
PATIENCE_S = 300
DOWN_S = 1


def write(port, rate, written, is_stopping):
    """Sets random keys at the rate, and connects again when the source is killed. Counts what was acknowledged."""
    count = rate // PIPELINES_PER_S
    request = b"*3\r\n$3\r\nSET\r\n$10\r\nkey:%06d\r\n$110\r\n%010d" + VALUE + b"\r\n"
    number, replies = 0, b"+OK\r\n" * count
    while not is_stopping.is_set():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as connection:
            due = time.monotonic()
            while not is_stopping.is_set():
                numbers = range(number, number + count)
                connection.sendall(b"".join(request % (random.randrange(KEYS), each) for each in numbers))
                left = len(replies)
                while left > 0:
                    found = connection.recv(left)
                    if not found:
                        raise ConnectionError
                    left -= len(found)
                number += count
                written.value += count
                due += 1 / PIPELINES_PER_S
                time.sleep(max(0, due - time.monotonic()))
        time.sleep(0.05)


class Process:
    """A server that can be killed and started again on its files."""

    def __init__(self, *command):
        self.command = [os.environ["SERVED_PROGRAM"], *command, "--json"]
        self.port = command[command.index("--redis") + 1].rpartition(":")[2]
        self.client = redis.Redis(port=int(self.port))
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        json.loads(self.process.stdout.readline())

    def kill(self):
        self.process.kill()
        self.process.wait()


def set_marker(source):
    """Sets a new key: one that was written before could be copied at its earlier place in the feed."""
    marker = f"marker:{time.monotonic_ns()}"
    assert source.client.set(marker, 1)
    return marker


def wait_for_marker(copy, marker):
    """Waits until the copy has the marker. Returns the seconds."""
    begin = time.monotonic()
    while not copy.client.exists(marker):
        assert time.monotonic() - begin < PATIENCE_S, "the copy does not catch up"
        time.sleep(0.005)
    return time.monotonic() - begin


def sample(source, copy, seconds):
    """Returns the lags that the copy states, and the delays of markers, both in milliseconds."""
    lags, delays, end, begin = [], [], time.monotonic() + seconds, None
    while time.monotonic() < end:
        due = time.monotonic() + 0.1
        if begin is None:
            marker, begin = set_marker(source), time.monotonic()
        lags.append(copy.client.info("replication")["follow_lag_ms"])
        while time.monotonic() < due:
            if begin is not None and copy.client.exists(marker):
                delays.append((time.monotonic() - begin) * 1000)
                begin = None
            time.sleep(0.005)
    return lags, delays


def restart(process, source, copy):
    """Kills a server and starts it again. Returns the seconds until the copy has caught up."""
    process.kill()
    time.sleep(DOWN_S)
    begin = time.monotonic()
    process.start()
    wait_for_marker(copy, set_marker(source))
    return round(time.monotonic() - begin, 2)


def same(source, copy):
    """Checks that the copy has what the source has."""
    wait_for_marker(copy, set_marker(source))
    for first in range(0, KEYS, 1000):
        keys = [b"key:%06d" % number for number in range(first, first + 1000)]
        pairs = zip(keys, source.client.mget(keys), copy.client.mget(keys))
        differing = [key for key, expected, found in pairs if expected != found]
        assert not differing, f"the copy differs: {differing[:10]}"


def measure(source, copy, options):
    written, is_stopping = multiprocessing.Value("q", 0), multiprocessing.Event()
    writer = multiprocessing.Process(target=write, args=(int(source.port), options.rate, written, is_stopping))
    writer.start()
    try:
        time.sleep(KEYS / options.rate)
        wait_for_marker(copy, set_marker(source))
        begin, before = time.monotonic(), written.value
        lags, delays = sample(source, copy, options.seconds)
        rate = (written.value - before) / (time.monotonic() - begin)
        figures = {"writes_per_second": round(rate), "lag_median_ms": statistics.median(lags), "lag_max_ms": max(lags),
                   "delay_median_ms": round(statistics.median(delays)), "delay_max_ms": round(max(delays)),
                   "copy_caught_up_s": restart(copy, source, copy), "source_caught_up_s": restart(source, source, copy)}
    finally:
        is_stopping.set()
        writer.join()
    same(source, copy)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=20_000, help="writes per second")
    parser.add_argument("--seconds", type=float, default=20, help="time of the samples")
    options = parser.parse_args()
    source_port, copy_port = servers.free_ports(2)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        source = Process("serve", "data", f"{folder}/source", "--redis", f"127.0.0.1:{source_port}",
                         "--set", "change_feed=64MiB")
        stack.callback(lambda: source.kill())
        copy = Process("follow", f"127.0.0.1:{source_port}", f"{folder}/copy", "--redis", f"127.0.0.1:{copy_port}")
        stack.callback(lambda: copy.kill())
        figures = measure(source, copy, options)
    print(json.dumps(figures))
    print("At {writes_per_second:,} writes per second the copy states a lag of {lag_median_ms:,.0f} ms (median; "
          "largest {lag_max_ms:,}), and a write is seen at the copy after {delay_median_ms:,} ms (largest "
          "{delay_max_ms:,}). After a kill of the copy it catches up in {copy_caught_up_s} s, after one of the source "
          "in {source_caught_up_s} s.".format(**figures))


if __name__ == "__main__":
    main()
