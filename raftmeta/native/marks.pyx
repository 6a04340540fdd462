"""Coverage marks for Python: their names, and those that this process has reached. marks.pxd explains them."""

from __future__ import annotations

# Cython shows the header's enum to Python; only its names are wanted, in their order.
NAMES = tuple(name.removeprefix("MARK_") for name in globals().pop("Mark").__members__)


def reached() -> set[str]:
    """Names of the marks that were reached since the process began or marks were cleared."""
    return {name for number, name in enumerate(NAMES) if mark_is_reached(<Mark>number)}


def clear() -> None:
    """Begin anew: no mark is reached."""
    marks_clear()
