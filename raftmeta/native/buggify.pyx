"""Names of the buggify points for Python; buggify.pxd explains them."""

from __future__ import annotations

import re
from pathlib import Path

# As in marks.pyx, out of the header. The last name only counts the others.
_HEADER = Path(__file__).with_name("buggify.pxd").read_text()
_NAMES = tuple(re.findall(r"^    BUGGIFY_(\w+)", _HEADER, re.MULTILINE))[:-1]


def names() -> tuple[str, ...]:
    """Names of the points, in the order of the header."""
    return _NAMES
