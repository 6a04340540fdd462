"""The public surface is what `__all__` says: complete, sorted, and importable."""

from __future__ import annotations

import importlib
import types
from pathlib import Path

import pytest

from tests.lint.rules import for_each
from tests.lint.sources import PACKAGE, declared, module_name, source_files

PUBLIC_FILES = [path for path in source_files(".py") if not path.stem.startswith("_") or path.name == "__init__.py"]


@for_each(PUBLIC_FILES, module_name)
def test_all_is_sorted_and_holds_no_name_twice(path: Path) -> None:
    """Wherever there is an __all__, a reader finds a name in it by the alphabet."""
    names = declared(path) or []
    assert names == sorted(set(names))


@pytest.mark.parametrize(
    "name", ["raftmeta", "raftmeta.aio", "raftmeta.interfaces", "raftmeta.operations", "raftmeta.results"]
)
def test_all_is_what_the_module_shows(name: str) -> None:
    """Every public name that is bound in a public module stands in __all__, and every name there is bound."""
    module = importlib.import_module(name)
    bound = {
        word
        for word, value in vars(module).items()
        if not word.startswith("_") and not isinstance(value, types.ModuleType) and word != "annotations"
    }
    # raftmeta and raftmeta.aio show what other modules define; elsewhere an import is not an export.
    is_face = name in ("raftmeta", "raftmeta.aio")
    own = {word for word in bound if is_face or getattr(vars(module)[word], "__module__", name) == name}
    listed = set(module.__all__)
    assert own - listed == set(), "bound and not in __all__"
    assert {word for word in listed if not hasattr(module, word)} == set(), "in __all__ and not bound"


def test_every_public_error_is_at_the_top() -> None:
    """`except raftmeta.NotExecuted` needs no second import."""
    top, errors = importlib.import_module("raftmeta"), importlib.import_module("raftmeta.errors")
    classes = {
        name
        for name, value in vars(errors).items()
        if getattr(value, "__module__", "") == errors.__name__ and isinstance(value, type)
    }
    assert classes - set(top.__all__) == set()


def test_the_package_is_marked_as_typed() -> None:
    """PEP 561: type checkers read the stubs of an installed raftmeta."""
    assert (PACKAGE / "py.typed").exists()
