"""Writes the numbers of native headers for Python: python -m tests.lint.statuses

raftmeta/common/statuses.py has those of raftmeta/status.pxd, raftmeta/common/numbers.py those of other enums.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.lint.sources import PACKAGE

STATUSES_HEAD = '''\
"""The statuses of native functions and of answers, for Python, written by `python -m tests.lint.statuses` of
raftmeta/status.pxd. That says what each means; no other file of Python has their numbers."""

from __future__ import annotations

'''
RANGES = """
REFUSED = range(1, 32)
NOT_EXECUTED = range(32, 48)
FATAL = range(96, 128)
"""
NUMBERS_HEAD = '''\
"""Numbers of native enums, for Python, written by `python -m tests.lint.statuses` of the headers that are named here.
Those say what each means; no other file of Python has their numbers."""

from __future__ import annotations
'''
# Header, and the enums of it that Python needs.
ENUMS = (
    ("machine/watches.pxd", ("WatchFilter",)),
    ("machine/watch_state.pxd", ("WatchItemKind", "WatchEventType")),
    ("wire/commands.pxd", ("CompareTarget", "CompareResult")),
    ("machine/rights_state.pxd", ("Right", "RightsVerb")),
    ("check/meaning.pxd", ("Meaning", "Reason")),
    ("check/objects.pxd", ("Object",)),
)
MEMBER = re.compile(r"^    ([A-Z_]+) = (\d+)", re.MULTILINE)


def members(text: str) -> str:
    """One line for each `NAME = number` of a header or of an enum."""
    return "".join(f"{name} = {number}\n" for name, number in MEMBER.findall(text))


def enum_text(header: str, name: str) -> str:
    """The body of an enum: the indented lines behind its first one."""
    found = re.search(rf"^cdef enum {name}:\n((?: .*\n|\n)+)", (PACKAGE / header).read_text(), re.MULTILINE)
    assert found is not None, f"{header} has no enum {name}"
    return found.group(1)


def statuses() -> str:
    """The text of common/statuses.py."""
    return STATUSES_HEAD + members((PACKAGE / "status.pxd").read_text()) + RANGES


def numbers() -> str:
    """The text of common/numbers.py."""
    return NUMBERS_HEAD + "".join(
        f"\n# raftmeta/{header}: {name}\n{members(enum_text(header, name))}"
        for header, names in ENUMS
        for name in names
    )


MODULES: dict[Path, str] = {
    PACKAGE / "common" / "statuses.py": statuses(),
    PACKAGE / "common" / "numbers.py": numbers(),
}


if __name__ == "__main__":
    for path, text in MODULES.items():
        path.write_text(text)
