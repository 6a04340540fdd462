"""The compiled modules that the targets need: tests.faces.fuzz, and all that it cimports, one after the other.

python -m tests.fuzz.modules prints them with commas between, as setup.py --only= takes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.lint.sources import ROOT, imports_of

TARGETS = "tests.faces.fuzz"


def source_of(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")).with_suffix(".pyx")


def headers_of(module: str) -> Iterator[Path]:
    """Its body and its header; a header without a body counts too, because others stand in it."""
    for suffix in (".pyx", ".pxd"):
        path = source_of(module).with_suffix(suffix)
        if path.exists():
            yield path


def needed(module: str = TARGETS) -> list[str]:
    """Every module with a body that this one needs to be loaded, itself included."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        one = waiting.pop()
        if one in seen or not any(headers_of(one)):
            continue
        seen.add(one)
        for path in headers_of(one):
            waiting += imports_of(path.read_text(), is_python=False)
            waiting += [name.rpartition(".")[0] for name in imports_of(path.read_text(), is_python=False)]
    return sorted(one for one in seen if source_of(one).exists())


if __name__ == "__main__":
    print(",".join(needed()))
