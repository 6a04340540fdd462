"""Coverage marks for Python: their names, and those that this process has reached. marks.pxd explains them."""

from __future__ import annotations

import re
from pathlib import Path

# The header stands beside this module, in a checkout and in a wheel. Its names are in the order of their numbers.
NAMES = tuple(re.findall(r"^    MARK_(\w+)", Path(__file__).with_name("marks.pxd").read_text(), re.MULTILINE))


def reached() -> set[str]:
    """Names of the marks that were reached since the process began or marks were cleared."""
    return {name for number, name in enumerate(NAMES) if mark_is_reached(<Mark>number)}


def clear() -> None:
    """Begin anew: no mark is reached."""
    marks_clear()
