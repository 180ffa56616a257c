#!/usr/bin/env python3
"""Runs a command while a server runs: served.py ENGINE COMMAND..., with the port as its last argument."""

import subprocess
import sys

import servers

with servers.siltstone(sys.argv[1]) as port:
    code = subprocess.run([*sys.argv[2:], str(port)]).returncode
if code != 0:
    sys.exit(f"{' '.join(sys.argv[2:])} has failed with a database of {sys.argv[1]}")
