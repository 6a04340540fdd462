"""A rule for many files as one test: it names every file that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["for_each"]

Check: TypeAlias = Callable[[Path], Any]


def for_each(files: Iterable[Path], name: Callable[[Path], str]) -> Callable[[Check], Callable[[], None]]:
    """Make one test of a check of one file. It fails with the messages of all files that fail."""
    listed = list(files)

    def made(check: Check) -> Callable[[], None]:
        def test() -> None:
            assert listed, "no file to look at"
            found = []
            for path in listed:
                try:
                    check(path)
                except AssertionError as error:
                    found.append(f"{name(path)}: {error}")
            assert not found, "\n".join(found)

        test.__name__ = check.__name__
        test.__doc__ = check.__doc__
        return test

    return made
