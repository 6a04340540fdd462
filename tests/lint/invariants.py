"""Writes raftmeta/common/invariants.py from the four lists of invariants: python -m tests.lint.invariants"""

from __future__ import annotations

import re

from tests.lint.sources import PACKAGE

LISTS = ("raft", "storage", "machine", "engine")
MODULE = PACKAGE / "common" / "invariants.py"
HEAD = '''"""The names of what the native parts believe, for people, written by `python -m tests.lint.invariants`.

raft/invariants.pxd, storage/invariants.pxd, machine/invariants.pxd and engine/invariants.pxd say what each means, and
which two numbers contradict each other when it proves wrong."""

from __future__ import annotations

NAMES = {
'''


def generated() -> str:
    """The text of the module."""
    named: dict[int, str] = {}
    for part in LISTS:
        header = (PACKAGE / part / "invariants.pxd").read_text()
        for name, number in re.findall(r"^    (BROKEN_[A-Z_]+) = (\d+)", header, re.MULTILINE):
            assert int(number) not in named, f"{name} and {named[int(number)]} have one number"
            named[int(number)] = name
    return HEAD + "".join(f'    {number}: "{name}",\n' for number, name in sorted(named.items())) + "}\n"


if __name__ == "__main__":
    MODULE.write_text(generated())
