"""Faults of a node on purpose: see raftmeta/faults.py, which shows them."""

from collections.abc import Mapping
from typing import Protocol

from raftmeta.face.base import NodeBase

class _Fault(Protocol):
    """raftmeta.faults.LinkFault."""

    @property
    def cut_to(self) -> bool: ...
    @property
    def cut_from(self) -> bool: ...
    @property
    def drop(self) -> float: ...
    @property
    def duplicate(self) -> float: ...
    @property
    def delay_s(self) -> float: ...

def abort(node: NodeBase) -> None:
    """End a running node as kill -9 ends its process."""

def set_link_faults(node: NodeBase, faults: Mapping[str, _Fault], seed: int) -> None:
    """From now on, or from its start on, these faults and no others, by name of the peer."""
