"""Buggify points from Python: their names. buggify.pxd says what they are."""

from __future__ import annotations

# As in marks.pyx: of the enum, what is wanted is the names. The last one only counts the others.
_NAMES = tuple(name.removeprefix("BUGGIFY_") for name in globals().pop("Buggify").__members__)[:-1]


def names() -> tuple[str, ...]:
    """Names of the points, in the order of the header."""
    return _NAMES
