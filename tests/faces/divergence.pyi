"""The comparison of states for tests (raftmeta/engine/divergence.pxd has the rules)."""

from __future__ import annotations

from collections.abc import Sequence

from raftmeta.face.base import NodeBase

class DivergenceHandle:
    """What one member knows of the others' states. own, voters, learners: ids of members."""

    def __init__(self, own: int, voters: list[int], learners: Sequence[int] = (), *, interval: int = 10) -> None: ...
    def note(self, member: int, index: int, state_hash: int) -> int:
        """Keep what a member said of the point `index`; return a status."""
    def judge(self, index: int) -> int:
        """Return the Verdict on a point: 0 they agree, 1 they differ, 2 this member is wrong."""

def make_state_wrong(node: NodeBase) -> None:
    """Let the state hash of a running node be another one from now on."""
