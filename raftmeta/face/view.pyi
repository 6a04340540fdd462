"""A node's report about itself."""

from collections.abc import Iterator

from raftmeta.face.base import NodeBase
from raftmeta.results import NodeEvent

class EventReader:
    """The newest events of a node, oldest first, then those to come; ends when the node is closed, or when none came
    for timeout_s seconds. A reader that is more than a thousand events behind misses some: their numbers show it."""

    def __init__(self, node: NodeBase, timeout_s: float | None = None) -> None: ...
    def __iter__(self) -> Iterator[NodeEvent]: ...
    def __next__(self) -> NodeEvent: ...
