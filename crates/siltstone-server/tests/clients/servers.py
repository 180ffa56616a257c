"""Servers as processes: Siltstone with an engine, and a real Redis."""

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time

# The engines that the clients are run with, and how their databases are created.
ENGINES = {"silt": ["--engine", "silt"], "mica": ["--engine", "mica", "--memory", "512MiB", "--databases", "16"]}

PATIENCE_S = 60


def free_ports(count):
    """Returns ports that nothing listens at."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listening.getsockname()[1] for listening in sockets]
    for listening in sockets:
        listening.close()
    return ports


@contextlib.contextmanager
def siltstone(engine, *options, listen="127.0.0.1:0"):
    """Runs `siltstone serve data` in a new directory, and yields its port; 0 for a Unix socket."""
    program = os.environ["SERVED_PROGRAM"]
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "serve", "data", folder, "--redis", listen, "--json", *ENGINES[engine], *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                line = server.stdout.readline()
                port = json.loads(line)["redis"].rpartition(":")[2]
                yield int(port) if port.isdigit() else 0
            finally:
                server.terminate()
                code = server.wait(PATIENCE_S)
        assert code == 0, f"the server has ended with {code}"


@contextlib.contextmanager
def redis(settings=""):
    """Runs `redis-server` in a new directory with these lines of settings, and yields its port."""
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "redis.conf")
        with open(file, "w", encoding="utf-8") as out:
            out.write(settings)
        command = ["redis-server", file, "--port", str(port), "--save", "", "--dir", folder, "--loglevel", "warning"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            try:
                wait_for(port, server)
                yield port
            finally:
                server.terminate()


def wait_for(port, server):
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"{server.args[0]} has ended with {server.returncode}")
