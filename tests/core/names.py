"""The enums of the compiled headers as Python enums, read from the .pxd files so that no number is written twice."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "raftmeta"
ENUM = re.compile(r"cdef enum ?\w*:\n((?:[ \t]+.*\n|\n)+)")


def read_enum(first: str) -> IntEnum:
    """Return the enum of the headers that has a member `first`."""
    for header in sorted(PACKAGE.rglob("*.pxd")):
        text = re.sub(r"#.*", "", header.read_text())
        for block in ENUM.findall(text):
            members = dict(re.findall(r"(\w+) = (\d+)", block))
            if first in members:
                return IntEnum(first, {name: int(number) for name, number in members.items()})
    raise LookupError(f"no enum with {first}")


Status = read_enum("OK")
MemberRole = read_enum("VOTER_INCOMING")
MessageType = read_enum("APPEND")
GenesisState = read_enum("BLANK")
GenesisMessageType = read_enum("GENESIS_PROPOSE")
StepDownReason = read_enum("STEPPED_DOWN_NO_QUORUM")
VoteRefusal = read_enum("REFUSED_LEADER_ALIVE")
