"""Watching keys: every change once, in order of revision."""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from raftmeta.face.base import NodeBase
from raftmeta.face.watch_callbacks import Callback
from raftmeta.operations import Key
from raftmeta.results import WatchBatch, WatchEvent, WatchReset

class WatchBase:
    """What the watches of both faces share."""

    def __init__(
        self,
        node: NodeBase,
        key: Key | None = None,
        end: Key | None = None,
        *,
        prefix: Key | None = None,
        start_revision: int = 0,
        previous: bool = False,
        puts: bool = True,
        deletes: bool = True,
        progress: bool = False,
        raise_lagged: bool = False,
        reset: bool = False,
    ) -> None: ...

class Watch(WatchBase):
    """A watch of the blocking face; Node.watch makes it. One thread consumes it."""

    def __init__(
        self,
        node: NodeBase,
        key: Key | None = None,
        end: Key | None = None,
        *,
        prefix: Key | None = None,
        start_revision: int = 0,
        previous: bool = False,
        puts: bool = True,
        deletes: bool = True,
        progress: bool = False,
        raise_lagged: bool = False,
        reset: bool = False,
        callback: Callable[[WatchBatch | WatchReset], object] | None = None,
        on_end: Callable[[BaseException | None], object] | None = None,
        timeout_s: float | None = None,
    ) -> None: ...
    def batches(self) -> Iterator[WatchBatch | WatchReset]:
        """Changes as the node delivers them, one revision (or a part of a large one) at a time."""
    def __iter__(self) -> Iterator[WatchEvent | WatchReset]: ...
    def close(self) -> None:
        """Stop watching; what was not looked at is thrown away."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None: ...

class WatchCallback(Callback):
    """What Watch(callback=...) is told by: on the threads that all callbacks of its node share."""

    def __init__(
        self,
        watch: Watch,
        callback: Callable[[WatchBatch | WatchReset], object],
        on_end: Callable[[BaseException | None], object] | None,
    ) -> None: ...
