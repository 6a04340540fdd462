"""Coverage marks from Python: their names, and which of them this process has reached. marks.pxd says what they are."""

from __future__ import annotations

# Cython shows the header's enum to Python; what is wanted of it is the names, in their order.
NAMES = tuple(name.removeprefix("MARK_") for name in globals().pop("Mark").__members__)


def reached() -> set[str]:
    """Names of the marks that were reached since the process began or marks were cleared."""
    return {name for number, name in enumerate(NAMES) if mark_is_reached(<Mark>number)}


def clear() -> None:
    """Begin anew: no mark is reached."""
    marks_clear()
