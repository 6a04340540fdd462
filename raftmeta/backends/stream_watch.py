"""A watch that is a stream of an HTTP server, begun anew by revision after each break: of etcd:// and http://.

The thread opens a stream, gives each line to the system's own reader, and goes on where the stream ended. It decides
what ends a watch for good, and that a history which is gone becomes one reset.
"""

from __future__ import annotations

import contextlib
import http.client
from abc import ABC, abstractmethod
from collections.abc import Callable

from raftmeta.backends.http_servers import Stream
from raftmeta.backends.plugin import Ending, Telling
from raftmeta.common.apart import ApartThread
from raftmeta.common.flags import Flag
from raftmeta.errors import Compacted, ConfigError, NodeClosed, PermissionDenied, RaftmetaError
from raftmeta.operations import KeyRecord
from raftmeta.recipes.deadline import Deadline
from raftmeta.results import WatchBatch, WatchEvent, WatchReset

__all__ = ["StreamWatch"]

PAUSE_S = 0.1
LOOK_S = 5.0


class StreamWatch(ABC):
    """read: all keys of the watch, and their revision. gone: called before the end is told."""

    refused: tuple[type[RaftmetaError], ...] = (PermissionDenied, ConfigError, NodeClosed)
    """A new stream would hear the same."""

    def __init__(
        self,
        name: str,
        read: Callable[..., tuple[int, list[KeyRecord]]],
        start_revision: int,
        tell: Telling,
        end: Ending,
        gone: Callable[[], object],
    ) -> None:
        self._read, self._next = read, start_revision
        self._tell, self._end, self._gone = tell, end, gone
        self._stream: Stream | None = None
        self._is_closed = Flag()
        self._running = ApartThread(self._run, name)

    @property
    def address(self) -> str:
        """Of the server of the present stream; "": there is none."""
        stream = self._stream
        return "" if stream is None else stream.address

    def start(self) -> None:
        self._running.start()

    def close(self) -> None:
        self._is_closed.set()
        stream = self._stream
        if stream is not None:
            stream.abort()

    # --- the system's own ---------------------------------------------------------------------------------------------
    @abstractmethod
    def open_stream(self, start_revision: int) -> Stream:
        """A stream of all changes from there on."""

    @abstractmethod
    def take(self, line: bytes) -> None:
        """Call told for what a line says. Raises Compacted: changes before the stream are gone."""

    def silent(self, address: str) -> None:
        """A server said nothing for too long."""
        return None

    # --- the thread ---------------------------------------------------------------------------------------------------
    def told(self, revision: int, events: list[WatchEvent]) -> None:
        """Tell a revision, unless it was told; without events it is known to have none."""
        if revision < self._next or self._is_closed.is_set():
            return
        self._next = revision + 1
        if events:
            self._tell(WatchBatch(revision, 0.0, events, True))

    def _run(self) -> None:
        error: RaftmetaError | None = None
        while not self._is_closed.is_set():
            try:
                self._follow()
            except Compacted:
                self._reset()
            except self.refused as refused:
                error = refused
                break
            except (RaftmetaError, OSError, ValueError, http.client.HTTPException):
                pass  # the next stream goes on where this one ended
            self._is_closed.wait(PAUSE_S)
        self._gone()
        self._end(error)

    def _follow(self) -> None:
        stream = self.open_stream(self._next)
        try:
            self._stream = stream
            while not self._is_closed.is_set() and (line := stream.line()):
                self.take(line)
        except TimeoutError:
            self.silent(stream.address)
            raise
        finally:
            self._stream = None
            stream.close()

    def _reset(self) -> None:
        """The history from there on is gone. A read that fails is made again by the next stream."""
        with contextlib.suppress(RaftmetaError):
            revision, records = self._read(deadline=Deadline(LOOK_S))
            self._next = revision + 1
            if not self._is_closed.is_set():
                self._tell(WatchReset(revision, records))
