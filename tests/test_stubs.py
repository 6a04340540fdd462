"""Each compiled module that Python can see has a hand-written .pyi beside it, and the two say the same."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.lint import invariants
from tests.lint.rules import for_each
from tests.lint.sources import PACKAGE, module_name, source_files
from tests.lint.statuses import MODULES, enum_text, members
from tests.lint.stubs import differences, visible_names


@for_each(source_files(".pyx"), module_name)
def test_the_stub_says_what_the_module_has(source: Path) -> None:
    """Names, parameters and docstrings agree; a module without Python-visible names has no stub."""
    module = importlib.import_module(module_name(source))
    stub = source.with_suffix(".pyi")
    if not visible_names(module):
        assert not stub.exists(), f"{stub.name} describes a module that has nothing to show"
        return
    assert stub.exists(), f"{source.name} has Python-visible names and no {stub.name}"
    assert not (found := list(differences(module, stub.read_text()))), "\n".join(found)


def test_a_stub_has_a_source() -> None:
    """No .pyi is left over from a module that is gone."""
    for stub in source_files(".pyi"):
        assert stub.with_suffix(".pyx").exists() or stub.with_suffix(".py").exists(), stub


def test_invariants_are_those_of_the_headers() -> None:
    """`python -m tests.lint.invariants` writes them; no two lists share a number."""
    assert invariants.MODULE.read_text() == invariants.generated()


def test_numbers_for_python_are_those_of_the_headers() -> None:
    """`python -m tests.lint.statuses` writes them."""
    for path, text in MODULES.items():
        assert path.read_text() == text, path.name


def test_no_two_statuses_have_one_number() -> None:
    """Of raftmeta/status.pxd and of the refusals of TLS, which stand in the same places."""
    found = members((PACKAGE / "status.pxd").read_text()) + members(enum_text("security/tls_state.pxd", "TlsRefusal"))
    numbers = [line.split(" = ")[1] for line in found.splitlines()]
    assert len(numbers) > 60 and len(set(numbers)) == len(numbers)


def example() -> ModuleType:
    """A module made here, with the shapes that Cython also gives: functions, a class, a static method."""
    module = ModuleType("example")
    source = """
def crc(data, seed=0, *, table=None): "Return the checksum."
class Handle:
    "Handle(uint64_t limit, data=(1, 2), *, flag=0)\\n\\nHold."
    def step(self, message, count=1): "Step."
    @staticmethod
    def decode(data): "Decode."
"""
    exec(compile(source, "example", "exec"), module.__dict__)
    return module


RIGHT = '''
"""What it is for."""
def crc(data: bytes, seed: int = 0, *, table: object = None) -> int:
    """Return the checksum."""
class Handle:
    """Hold."""
    def __init__(self, limit: int, data: tuple[int, int] = ..., *, flag: int = 0) -> None: ...
    def step(self, message: bytes, count: int = 1) -> None:
        """Step."""
    @staticmethod
    def decode(data: bytes) -> Handle:
        """Decode."""
'''


def test_a_true_stub_is_not_reported() -> None:
    assert list(differences(example(), RIGHT)) == []


@pytest.mark.parametrize(
    ("right", "wrong", "report"),
    [
        ("seed: int = 0", "seed: int", "crc: parameters"),
        ("*, table", "table", "crc: parameters"),
        ("count: int = 1", "times: int = 1", "Handle.step: parameters"),
        ("limit: int", "size: int", "Handle(): parameters"),
        ("def decode(data: bytes)", "def decode(data: bytes, more: int)", "Handle.decode: parameters"),
        ("def crc", "def crc32", "crc: not in the stub"),
        ("def step", "def advance", "Handle.step: not in the stub"),
        ('"""Step."""', "...", "Handle.step: no docstring"),
        ('"""What it is for."""', "", "the stub has no first page"),
    ],
)
def test_a_planted_difference_is_found(right: str, wrong: str, report: str) -> None:
    """The comparison bites: one change of a true stub is one thing to report."""
    assert right in RIGHT
    assert any(line.startswith(report) for line in differences(example(), RIGHT.replace(right, wrong)))


def test_imported_names_need_no_stub() -> None:
    """What a module took from elsewhere is not its own."""
    module = example()
    module.__dict__["SimpleNamespace"] = SimpleNamespace
    assert visible_names(module) == {"crc", "Handle"}
