"""The asyncio metastore behind blocking calls, on the event loop of a thread of its own."""

from __future__ import annotations

import inspect
from typing import Any

from raftmeta import metastore
from raftmeta.conformance.aio_kit import EventLoop

FACES = ("blocking", "asyncio")


class Driven:
    """An AioMetastore whose coroutines are waited for."""

    def __init__(self, subject: metastore.AioMetastore, loop: EventLoop) -> None:
        self.subject = subject
        self.loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.subject, name)
        if not callable(found) or not inspect.ismethod(found):
            return found
        return lambda *arguments, **options: self.loop.call(found, *arguments, **options)


def connected(face: str, loop: EventLoop, url: str, **settings: Any) -> Any:
    """A metastore of this face."""
    if face == "blocking":
        return metastore.connect(url, **settings)
    return Driven(loop.call(metastore.connect_aio, url, **settings), loop)
