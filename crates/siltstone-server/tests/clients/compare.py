#!/usr/bin/env python3
"""Sends the same random commands to a real Redis and to Siltstone, and compares the replies.

    compare.py [--commands 20000] [--seed 1] [--engine silt]

The keys are few, so commands meet values of any type, with and without a time of expiry. The replies must have the same
bytes, but for what Redis leaves open: the order of fields, of keys, and the milliseconds that have passed. A difference
is printed with the commands before it that have one of its keys.
"""

import argparse
import collections
import random
import socket
import sys
import time

import servers
from grammar import Grammar

BATCH = 100
SHOWN = 10


class Connection:
    """Sends commands, and returns the bytes of their replies as values."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=servers.PATIENCE_S)
        self.stream = self.socket.makefile("rb")

    def send(self, commands):
        parts = []
        for words in commands:
            parts.append(b"*%d\r\n" % len(words))
            parts.extend(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        self.socket.sendall(b"".join(parts))

    def reply(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError(f"the connection has ended with {line!r}")
        kind, rest = line[:1], line[1:-2]
        if kind in b"$=" and rest != b"-1":
            return (line, self.stream.read(int(rest) + 2))
        if kind in b"*~%" and rest != b"-1":
            items = int(rest) * (2 if kind == b"%" else 1)
            return (line, [self.reply() for _ in range(items)])
        return (line, None)


# Commands whose replies have an order that Redis leaves open: keys or fields alone, or fields with values.
UNORDERED = {b"hkeys", b"hvals", b"keys"}
UNORDERED_PAIRS = {b"hgetall"}
# Commands whose replies depend on the time, and by how much they may differ.
TIMED = {b"ttl": 1, b"pttl": 2000, b"expiretime": 1, b"pexpiretime": 2000}


def called(words):
    """Returns the command that a script calls, and other commands as they are."""
    if words[0].lower() in (b"eval", b"eval_ro") and len(words) > 2:
        return words[3 + int(words[2]):] or words
    return words


def canonical(words, reply):
    """Returns a reply without what Redis leaves open."""
    name = words[0].lower()
    head, items = reply
    if name == b"dump" and head[:1] in b"$_":
        # Redis compresses strings, and has shorter forms of numbers and of small hashes.
        return items is None
    if head[:1] == b"-" or not isinstance(items, list):
        return reply
    if name in UNORDERED:
        return (head, sorted(items))
    if name in UNORDERED_PAIRS:
        return (head, sorted(zip(items[::2], items[1::2])))
    if name == b"hscan":
        listed = items[1][1]
        return (head, items[0], items[1][0], sorted(zip(listed[::2], listed[1::2])))
    return reply


def are_equal(words, one, other):
    words = called(words)
    tolerance = TIMED.get(words[0].lower())
    if tolerance and one[0][:1] == other[0][:1] == b":":
        numbers = int(one[0][1:]), int(other[0][1:])
        return numbers[0] == numbers[1] or min(numbers) >= 0 and abs(numbers[0] - numbers[1]) <= tolerance
    return canonical(words, one) == canonical(words, other)


def show(value):
    if isinstance(value, bytes):
        return value.decode("latin-1").encode("unicode_escape").decode("ascii")
    if isinstance(value, list | tuple):
        return "".join(show(part) for part in value if part is not None)
    return str(value)


def show_command(words):
    return " ".join(repr(word)[1:] if any(byte < 33 for byte in word) or not word else show(word) for word in words)


def compare(connections, grammar, commands):
    """Returns the differences."""
    history = collections.deque(maxlen=2000)
    differences = []
    queued = []
    for _ in range(0, commands, BATCH):
        batch, passes = grammar.batch(BATCH)
        for connection in connections:
            connection.send(batch)
        for words in batch:
            one, other = (connection.reply() for connection in connections)
            # The replies of EXEC are those of the commands that were queued.
            in_transaction = one[0] == b"+QUEUED\r\n"
            if in_transaction:
                queued.append(words)
            asked = [(words, one, other)]
            if words[0].lower() == b"exec" and isinstance(one[1], list) and isinstance(other[1], list):
                if len(queued) == len(one[1]) == len(other[1]):
                    asked = list(zip(queued, one[1], other[1]))
            if not in_transaction and words[0].lower() in (b"exec", b"discard"):
                queued = []
            for asked_words, one, other in asked:
                if not are_equal(asked_words, one, other):
                    differences.append((asked_words, one, other, list(history)))
            history.append(words)
        if len(differences) >= SHOWN:
            break
        if passes:
            time.sleep(0.006)
    return differences


def report(difference):
    words, one, other, history = difference
    print(f"> {show_command(words)}\n  Redis     {show(one)}\n  Siltstone {show(other)}")
    keys = set(words[1:3])
    if words[0].lower() == b"exec":
        # What has changed the keys that were watched.
        watches = [before for before in history if before[0].lower() in (b"watch", b"exec", b"discard", b"unwatch")]
        keys = {key for before in watches[-4:] for key in before[1:]}
    for before in [before for before in history if keys & set(before[1:])][-6:]:
        print(f"    after {show_command(before)[:200]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commands", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=servers.ENGINES, default="silt")
    parser.add_argument("--resp", type=int, choices=[2, 3], default=2)
    options = parser.parse_args()
    begin = time.monotonic()
    with servers.redis() as redis, servers.siltstone(options.engine) as siltstone:
        connections = [Connection(redis), Connection(siltstone)]
        for connection in connections:
            connection.send([[b"HELLO", b"%d" % options.resp]])
            connection.reply()
        differences = compare(connections, Grammar(random.Random(options.seed)), options.commands)
    for difference in differences[:SHOWN]:
        report(difference)
    took = time.monotonic() - begin
    print(f"{options.engine}, RESP {options.resp}, seed {options.seed}: {options.commands} commands,"
          f" {len(differences)} differences, {took:.1f} s")
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
