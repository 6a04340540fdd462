"""Commands that no caller of a node could make, for tests of real clusters."""

from raftmeta.face.base import NodeBase

def plant(node: NodeBase, payload: bytes) -> None:
    """Propose this payload as it is. Nobody waits for it. A node that does not lead forwards it, and it is refused."""

def session_of(node: NodeBase) -> int:
    """The session of the node's own commands; 0: none is open."""
