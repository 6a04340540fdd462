"""Watching keys: every change once, in order of revision."""

from collections.abc import Callable, Iterator

from raftmeta.face.base import NodeBase
from raftmeta.face.watch_callbacks import Callback
from raftmeta.results import WatchBatch, WatchEvent, WatchReset
from raftmeta.verbs.asked import WatchAsked
from raftmeta.verbs.watch import Watch

class WatchBase:
    """The base of the watches of both faces."""

    def __init__(self, node: NodeBase, asked: WatchAsked) -> None: ...

class NodeWatch(WatchBase, Watch):
    """A watch of the blocking face; its thread takes what lies in the native watch."""

    def __init__(
        self,
        node: NodeBase,
        asked: WatchAsked,
        callback: Callable[[WatchBatch | WatchReset], object] | None = None,
        on_end: Callable[[BaseException | None], object] | None = None,
    ) -> None: ...
    def batches(self) -> Iterator[WatchBatch | WatchReset]:
        """Changes as the node delivers them."""
    def __iter__(self) -> Iterator[WatchEvent | WatchReset]: ...
    def close(self) -> None:
        """Stop watching."""

class WatchCallback(Callback):
    """The caller of a watch's callback, on the threads that all callbacks of its node share."""

    def __init__(
        self,
        watch: NodeWatch,
        callback: Callable[[WatchBatch | WatchReset], object],
        on_end: Callable[[BaseException | None], object] | None,
    ) -> None: ...
