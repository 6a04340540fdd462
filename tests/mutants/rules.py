"""Names for what fell: an invariant of docs/invariants.md, or the belief of a core that proved wrong and stopped it.

A node that stops itself has kept a rule: it says nothing more. The rule is numbered in raftmeta/raft/invariants.pxd and
stands for an invariant of the cluster.
"""

from __future__ import annotations

import re

from raftmeta.sim.small.exhaustive_handle import INVARIANTS
from tests.lint.sources import PACKAGE

HALTED = "a node stopped itself"

# Belief of a core -> invariant that would have fallen had it gone on.
STANDS_FOR = {
    "COMPACTED_BEYOND_SNAPSHOTTED": 9, "SNAPSHOTTED_BEYOND_APPLIED": 9, "APPLIED_BEYOND_COMMITTED": 9,
    "COMMITTED_BEYOND_LAST": 9, "PERSISTED_BEYOND_STAGED": 9, "STAGED_BEYOND_LAST": 9, "APPLIED_BEYOND_PERSISTED": 9,
    "PLACES": 2, "CHAIN": 2, "TRUNCATED_COMMITTED": 4, "TWO_LEADERS": 1, "LEADER_UNKNOWN_TO_ITSELF": 1,
    "LEADER_APPENDED_TO": 1, "MATCH_NOT_BELOW_NEXT": 9, "MATCH_BEYOND_LAST": 9, "TERM_FELL": 9, "VOTED_TWICE": 6,
    "APPLIED_BACKWARDS": 9, "WRITE_UNKNOWN": 5, "MEMBERSHIP": 10, "LEADER_NOT_DURABLE": 6,
    "ACKNOWLEDGED_LOST": 8,
}  # fmt: skip


def beliefs() -> dict[int, str]:
    """Number of each belief of a core, and its name without BROKEN_."""
    text = (PACKAGE / "raft" / "invariants.pxd").read_text()
    return {int(number): name for name, number in re.findall(r"^    BROKEN_(\w+) = (\d+)", text, re.MULTILINE)}


def named(violation: str) -> str:
    """What a world or a small world says of its end, without where and when; of a halt, the rule that it kept."""
    what = violation.split(": ", 1)[0]
    number = re.search(r"\bb=(\d+)", violation)
    if what != HALTED or number is None:
        return what
    belief = beliefs().get(int(number.group(1)))
    if belief is None:
        status = re.search(r"\ba=(\d+)", violation)
        return f"{what}, status {status.group(1)}" if status else what
    return f"{INVARIANTS[STANDS_FOR[belief]]}: {what}, BROKEN_{belief}"
