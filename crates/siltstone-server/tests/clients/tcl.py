"""Runs the tests of Redis 7.0 itself against Siltstone, and lists those that it must pass and does not.

    tcl.py CHECKOUT [--engine ENGINE] [UNIT...]

CHECKOUT is the source of Redis 7.0, which has the tests; they run in a copy without the settings of encodings, of memory and of
scripts, because a test that cannot set one leaves the others of its unit in a state that they do not expect. Siltstone must pass what a redis-server passes that has the same
commands: the others are renamed away there, so that no list of tests is kept by hand. `tcl_known.txt` has the tests that
differ all the same, each with the reason. Needs tclsh, redis-server, and the Python package redis.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import redis as client
import servers

UNITS = [
    "type/string", "type/incr", "type/hash", "expire", "keyspace", "scan", "multi", "protocol", "introspection",
    "introspection-2", "slowlog", "latency-monitor", "bitops", "bitfield", "other", "dump", "querybuf", "quit",
    "info-command", "pubsub", "scripting", "acl",
]  # fmt: skip

KNOWN = pathlib.Path(__file__).with_name("tcl_known.txt")

# The settings that are left out, for both servers, with the check of the reply to a client that reads it later.
LEFT_OUT = re.compile(
    r"^(\s*)(?:\$?rd?|r) config set (?:hash-max|list-max|set-max|zset-max|maxmemory|lua-time-limit|rdb-)[^\n;}]*$"
    r"(?:\n\s*assert\s+\{\[\$rd read\] eq \{OK\}\}$)?",
    re.MULTILINE,
)

# A unit that waits for a reply which never comes is given up.
PATIENCE_S = 300


def commands(port):
    """Returns the names of the commands of a server."""
    with client.Redis(port=port) as connection:
        # Subcommands are listed as `client|list`.
        names = {name.decode().lower() for name in connection.execute_command("COMMAND LIST")}
        return {name for name in names if "|" not in name}


def run(checkout, port, unit):
    """Returns the names of the tests of a unit that pass, and the rest of what the suite printed."""
    with client.Redis(port=port) as connection:
        connection.execute_command("FLUSHALL")
    command = ["tclsh", "tests/test_helper.tcl", "--host", "127.0.0.1", "--port", str(port), "--single", f"unit/{unit}"]
    command += ["--ignore-encoding", "--ignore-digest", "--durable"]
    # Without the setting of their time limit, scripts without an end leave a redis-server busy for the rest of the unit.
    command += ["--skiptest", "/.*script timeout"]
    try:
        outcome = subprocess.run(
            command, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False
        )
        text = outcome.stdout
    except subprocess.TimeoutExpired as given_up:
        text = given_up.stdout or b""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text.decode(errors="replace"))
    passed = {re.sub(r" \(\d+ ms\)$", "", name.strip()) for name in re.findall(r"^\[ok\]: (.*)$", text, re.MULTILINE)}
    return passed, text


def copy_of(checkout, folder):
    """Copies the tests without the settings that are left out, and returns where."""
    copy = pathlib.Path(folder) / "checkout"
    shutil.copytree(checkout / "tests", copy / "tests")
    for unit in (copy / "tests" / "unit").rglob("*.tcl"):
        text = unit.read_text(encoding="latin-1")
        unit.write_text(LEFT_OUT.sub(r"\1set left_out 1", text), encoding="latin-1")
    return copy


def known_differences():
    """Returns the names of the tests that differ, with the reasons: lines of `NAME: REASON` below a line `[UNIT]`."""
    known, unit = {}, None
    for line in KNOWN.read_text().splitlines():
        if line.startswith("[") and line.endswith("]"):
            unit = line[1:-1]
        elif line and not line.startswith("#"):
            name, _, reason = line.partition(" => ")
            known[unit, name] = reason
    return known


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("units", nargs="*", default=UNITS)
    parser.add_argument("--engine", default="silt", choices=servers.ENGINES)
    parser.add_argument("--log", type=pathlib.Path, help="directory for what the suite prints")
    arguments = parser.parse_args()
    os.environ.setdefault("SERVED_PROGRAM", "target/release/siltstone")
    os.environ["SERVED_PROGRAM"] = os.path.realpath(os.environ["SERVED_PROGRAM"])

    with servers.redis() as port:
        of_redis = commands(port)
    known, lost, due, unneeded = known_differences(), 0, 0, set()
    folder = tempfile.TemporaryDirectory()
    checkout = copy_of(arguments.checkout, folder.name)
    for unit in arguments.units:
        with servers.siltstone(arguments.engine) as port:
            missing = of_redis - commands(port)
            passed, text = run(checkout, port, unit)
        renamed = "".join(f'rename-command {name} ""\n' for name in sorted(missing))
        with servers.redis(renamed) as port:
            expected, _ = run(checkout, port, unit)
        differing = sorted(expected - passed)
        unknown = [name for name in differing if (unit, name) not in known]
        unneeded |= {(unit, name) for name in passed if (unit, name) in known}
        lost, due = lost + len(unknown), due + len(expected)
        print(f"{unit:18} due {len(expected):4}  passed {len(expected & passed):4}  known {len(differing) - len(unknown):3}")
        for name in unknown:
            print(f"    not passed: {name}")
        if arguments.log:
            arguments.log.mkdir(parents=True, exist_ok=True)
            (arguments.log / (unit.replace("/", "-") + ".log")).write_text(text)
    for unit, name in sorted(unneeded):
        print(f"{unit}: passes, remove it from {KNOWN.name}: {name}")
    print(f"{due} tests are due; {lost} of them are neither passed nor known")
    sys.exit(lost > 0)


if __name__ == "__main__":
    main()
