"""Names of the buggify points for Python; buggify.pxd explains them."""

from __future__ import annotations

# As in marks.pyx: only the names of the enum are wanted. The last one only counts the others.
_NAMES = tuple(name.removeprefix("BUGGIFY_") for name in globals().pop("Buggify").__members__)[:-1]


def names() -> tuple[str, ...]:
    """Names of the points, in the order of the header."""
    return _NAMES
