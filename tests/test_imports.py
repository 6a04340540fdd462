"""What an import costs: nobody loads asyncio, ssl or the engine without asking for them. Each look is a new process."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import raftmeta
from tests.lint.sources import PACKAGE
from tests.processes.waiting import free_ports

SHOW = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
EVENT_LOOP = {"asyncio", "ssl", "_ssl"}
ENGINE = {"raftmeta._core", "raftmeta.engine", "raftmeta.face", "lmdb", "msgpack"}


def loaded_by(program: str, *arguments: str) -> set[str]:
    """The modules that a new Python has once it ran the program."""
    ended = subprocess.run(
        [sys.executable, "-c", program + SHOW, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return set(json.loads(ended.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "program",
    [
        "import raftmeta; raftmeta.NotExecuted",
        "from raftmeta import Config, operations",
        "import raftmeta.testing.plugin",
    ],
)
def test_a_program_that_runs_no_node_loads_no_engine(program: str) -> None:
    """pytest loads the plug-in in each run of everybody who has raftmeta installed."""
    assert not loaded_by(program) & (ENGINE | EVENT_LOOP)


def test_a_plain_import_loads_neither_engine_nor_event_loop() -> None:
    """Only raftmeta and its version are loaded."""
    assert {name for name in loaded_by("import raftmeta") if name.startswith("raftmeta")} == {
        "raftmeta",
        "raftmeta.version",
    }


def test_a_node_that_only_blocks_loads_no_event_loop(tmp_path: Path) -> None:
    """Puts, transactions, watches, leases and the recipes do without asyncio; aio() loads it."""
    program = """
import sys, raftmeta
from raftmeta import recipes
address, folder = sys.argv[1:]
with raftmeta.Node("a", peers={"a": address}, data_dir=folder) as node:
    node.ready(20)
    node.put("k", b"1")
    node.storage.put("s", b"2")
    assert node.storage.fetch("s").result(10) == b"2"
    with node.lease(20) as lease, node.watch("k"):
        node.put("l", b"3", lease=lease)
    node.group("g").join("a")
    with recipes.Lock(node, "jobs").acquire(timeout_s=10) as held:
        node.put("k", b"2", fence=held)
    assert "asyncio" not in sys.modules, "asyncio"
    assert "ssl" not in sys.modules, "ssl"
    node.aio()
    assert "asyncio" in sys.modules
"""
    loaded_by(program, f"127.0.0.1:{free_ports(1)[0]}", str(tmp_path / "a"))


def test_each_name_is_what_type_checkers_read() -> None:
    """The imports for type checkers and the table of homes name the same objects, and every public name has one."""
    block = next(node for node in ast.parse((PACKAGE / "__init__.py").read_text()).body if isinstance(node, ast.If))
    read = set()
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module is not None
        for alias in node.names:
            module = importlib.import_module(node.module)
            expected = getattr(module, alias.name, None) or importlib.import_module(f"{node.module}.{alias.name}")
            assert getattr(raftmeta, alias.name) is expected, alias.name
            read.add(alias.name)
    assert read == set(raftmeta.__all__)
    assert set(dir(raftmeta)) >= read


def test_a_name_that_is_nowhere_is_an_attribute_error() -> None:
    """In the words of any other module."""
    with pytest.raises(AttributeError, match="module 'raftmeta' has no attribute 'Nodes'"):
        raftmeta.Nodes  # type: ignore[attr-defined]  # noqa: B018
