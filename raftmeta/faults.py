"""Faults on purpose: what a test may do to a node that a user's program never should.

    faults.set_link_faults(node, {"b": LinkFault(cut_to=True, cut_from=True)})      a cable is pulled
    faults.set_link_faults(node, {})                                                and put back
    faults.abort(node)                                                              kill -9, as far as one process can

raftmeta.testing.Cluster is made of these and is what tests want (docs/testing.md). Nothing here costs a node anything
that does not use it, and `import raftmeta` does not load it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from raftmeta.errors import InvalidArgument
from raftmeta.face import faults as face
from raftmeta.face.base import NodeBase

__all__ = ["LinkFault", "abort", "set_link_faults"]

DELAY_S_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFault:
    """What becomes of frames between a node and one peer, as this node sends and receives them.

    cut_to: frames to the peer are lost. cut_from: frames from it are ignored. Connections that are open stay open, as
    over a cable that was pulled; new ones are not made while either is cut. One of both alone is a one-way partition.
    drop, duplicate: probabilities from 0 to 1 for each frame sent. delay_s: seconds that each frame sent waits.
    """

    cut_to: bool = False
    cut_from: bool = False
    drop: float = 0.0
    duplicate: float = 0.0
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        for field, most in (("drop", 1.0), ("duplicate", 1.0), ("delay_s", DELAY_S_MAX)):
            if not 0 <= getattr(self, field) <= most:
                raise InvalidArgument(f"{field}: must be from 0 to {most:g}, not {getattr(self, field)!r}", field=field)


def set_link_faults(node: NodeBase, faults: Mapping[str, LinkFault], *, seed: int = 1) -> None:
    """Give a node these faults, by name of the peer, and take away all it had; {} heals.

    On a running node they hold when this returns, on one that was not started from its start on.
    seed: of the choice which frames are lost and repeated.
    """
    face.set_link_faults(node, faults, seed)


def abort(node: NodeBase) -> None:
    """End a running node without a word: no hand-over, nothing sent or written that was not begun, connections reset.

    Differs from kill -9 in three things: a disk write that is under way is waited for, the turn of the loop that runs
    is run to its end without sending, and callers in this process are told: NodeClosed for what was not proposed,
    OutcomeUnknown for the rest. Its folder may be opened again when this returns. Raises NodeClosed if it does not run.
    """
    face.abort(node)
