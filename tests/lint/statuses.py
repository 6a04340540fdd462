"""Writes raftmeta/common/statuses.py from raftmeta/status.pxd: python -m tests.lint.statuses"""

from __future__ import annotations

import re

from tests.lint.sources import PACKAGE

HEADER = PACKAGE / "status.pxd"
MODULE = PACKAGE / "common" / "statuses.py"
HEAD = '''"""The statuses of native functions and of answers, for Python, written by `python -m tests.lint.statuses` of
raftmeta/status.pxd. That says what each means; no other file of Python has their numbers."""

from __future__ import annotations

'''
RANGES = """
REFUSED = range(1, 32)
NOT_EXECUTED = range(32, 48)
FATAL = range(96, 128)
"""


def generated() -> str:
    """The text of the module."""
    named = re.findall(r"^    ([A-Z_]+) = (\d+)", HEADER.read_text(), re.MULTILINE)
    return HEAD + "".join(f"{name} = {number}\n" for name, number in named) + RANGES


if __name__ == "__main__":
    MODULE.write_text(generated())
