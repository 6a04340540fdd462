"""Faults on purpose, for tests. A user's program must never do these to a node.

    faults.set_link_faults(node, {"b": LinkFault(cut_to=True, cut_from=True)})      a cable is pulled
    faults.set_link_faults(node, {})                                                and put back
    faults.abort(node)                                                              kill -9, as far as one process can

raftmeta.testing.Cluster is made of these functions; most tests want it instead (docs/testing.md). They cost a node
nothing that does not use them, and `import raftmeta` does not load them.
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
    """The fate of frames between a node and one peer, as this node sends and receives them.

    cut_to: frames to the peer are lost. cut_from: frames from it are ignored. Open connections stay open, as over a
    cable that was pulled; no new ones are made while either is cut. One of both alone is a one-way partition.
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
    """Give a node these faults, by name of the peer, in place of all its earlier ones; {} heals.

    On a running node they hold when this returns; a node that was not started has them from its start on.
    seed: decides which frames are lost and repeated.
    """
    face.set_link_faults(node, faults, seed)


def abort(node: NodeBase) -> None:
    """End a running node without a word: no hand-over, nothing new sent or written, connections reset.

    It differs from kill -9 in three things. It waits for a disk write that is under way. It lets the present turn of
    the loop end, without sending. And it tells callers in this process: NodeClosed for operations that were not
    proposed, OutcomeUnknown for the rest. The folder may be opened again when this returns. Raises NodeClosed if the
    node does not run.
    """
    face.abort(node)
