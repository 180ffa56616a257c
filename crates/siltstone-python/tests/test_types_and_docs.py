"""The examples of the documentation run, and the types hold."""

import doctest
import importlib
import pathlib
import subprocess
import sys

import pytest
import siltstone

ROOT = pathlib.Path(__file__).parents[3]
MODULES = {"": "", "._database": "", "._dictionary": "", ".arrow": "pyarrow", ".checkpoints": "fsspec", ".pandas": "pandas"}

#: The pages, what their examples need, and how many examples they have at least.
PAGES = {
    "PYTHON.md": ("numpy pandas pyarrow", 50),
    "python/pytorch.md": ("torch pyarrow", 10),
    "python/pandas.md": ("pandas pyarrow", 15),
    "python/jupyter.md": ("numpy", 8),
    "python/processes.md": ("", 12),
}

PROGRAM = """
import numpy
import siltstone
from collections.abc import MutableMapping

db: siltstone.Database[str, int] = siltstone.open("path", keys="str", values="json", memory_budget=1 << 30)
mapping: MutableMapping[str, int] = db
reveal_type(db["a"])
reveal_type(db.get("a"))
reveal_type(db.get("a", 0))
reveal_type(db.get_many(["a"]))
reveal_type(db.contains_many(["a"]))
reveal_type(list(db.range("a", keys_only=True)))
reveal_type(siltstone.Dictionary.build("path", {"a": 1})["a"])
with db.write_batch() as batch:
    batch["a"] = 1
found = db.get_many(numpy.arange(3))[1]
numbers = siltstone.open("numbers", keys=int, values=numpy.dtype(("f4", 64)), progress=True)
numbers.put_many({1: 1.5}, progress=lambda done, total: None)
siltstone.Dictionary.build("path", {1: 2}, keys=int, values=numpy.float32, memory_bytes="64MiB", progress=True)
db["a"] = "text"  # an error
db[1]  # an error
"""

TYPES = ["int", "int | None", "int", "list[int | None]", "list[bool]", "list[str]", "int"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name):
    if MODULES[name]:
        pytest.importorskip(MODULES[name])
    module = importlib.import_module("siltstone" + name)
    result = doctest.testmod(module)
    assert result.failed == 0 and result.attempted > 0


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(tmp_path, page):
    needed, least = PAGES[page]
    for name in needed.split():
        pytest.importorskip(name)
    # In a process of its own: it has threads and children, and its classes are those of a program.
    program = f"import doctest; print(*doctest.testfile({str(ROOT / 'docs' / page)!r}, module_relative=False))"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    failed, attempted = done.stdout.split()[-2:]
    assert failed == "0" and int(attempted) >= least, done.stdout


def test_public_names_are_documented():
    for name in siltstone.__all__:
        item = getattr(siltstone, name)
        assert name == "__version__" or item.__doc__, name
    for kind in (siltstone.Database, siltstone.Dictionary, siltstone.WriteBatch):
        for name in dir(kind):
            assert name.startswith("_") or getattr(kind, name).__doc__, f"{kind.__name__}.{name}"


def test_the_types_are_strict(tmp_path):
    pytest.importorskip("mypy")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    package = pathlib.Path(siltstone.__file__).parent
    done = subprocess.run([*mypy, "-p", "siltstone"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([*mypy, str(program)], cwd=tmp_path, capture_output=True, text=True)
    revealed = [line.split('"')[1].replace("builtins.", "") for line in done.stdout.splitlines() if "Revealed" in line]
    assert revealed == TYPES, done.stdout
    errors = {line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line}
    assert errors == {str(PROGRAM[: PROGRAM.index(text)].count("\n") + 1) for text in ('db["a"] = "text"', "db[1]")}
    assert package.joinpath("py.typed").exists()


def test_pyright_finds_no_error_in_the_package(tmp_path):
    pytest.importorskip("pyright")
    package = pathlib.Path(siltstone.__file__).parent
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(package)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_the_package_imports_nothing_heavy():
    program = "import sys; before = set(sys.modules); import siltstone; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "siltstone._siltstone" in imported
    heavy = {"asyncio", "concurrent", "inspect", "json", "logging", "numpy", "pickle", "re", "tempfile", "typing", "uuid"}
    assert not imported & heavy


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="Python 3.13 or later")
def test_importing_the_package_does_not_turn_the_gil_on():
    program = "import sys; before = sys._is_gil_enabled(); import siltstone; print(before == sys._is_gil_enabled())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
