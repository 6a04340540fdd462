"""The enums of the compiled headers as Python enums, read from the .pxd files so that no number is written twice."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "raftmeta"


def read_enum(header: str, first: str) -> IntEnum:
    """Return the enum of `header` (below raftmeta/) whose first member is `first`."""
    text = re.sub(r"#.*", "", (PACKAGE / header).read_text())
    for block in re.findall(r"cdef enum ?\w*:\n((?:[ \t]+.*\n|\n)+)", text):
        members = dict(re.findall(r"(\w+) = (\d+)", block))
        if first in members:
            return IntEnum(first, {name: int(number) for name, number in members.items()})
    raise LookupError(f"{header}: no enum with {first}")


Status = read_enum("status.pxd", "OK")
Role = read_enum("_core.pxd", "FOLLOWER")
PeerEvent = read_enum("_core.pxd", "PEER_CONNECTED")
TraceType = read_enum("_core.pxd", "TRACE_BECAME_FOLLOWER")
EntryType = read_enum("raft/types.pxd", "ENTRY_NOOP")
MemberRole = read_enum("raft/types.pxd", "VOTER_INCOMING")
MessageType = read_enum("raft/types.pxd", "APPEND")
GenesisState = read_enum("raft/genesis.pxd", "BLANK")
GenesisMessageType = read_enum("raft/genesis.pxd", "GENESIS_PROPOSE")
