"""A backup over the client protocol: the bytes of a sealed file of whichever node serves the client.

It decides how far ahead pieces are asked for, and where to go on when another node serves the client: files of
one entry are the same bytes on all nodes, so with the same footer at the same place, else from the beginning. It
must never look into the file; who asked for it checks it (raftmeta/snapshot.py).
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable
from typing import BinaryIO

from raftmeta.bindings.requests import BYTES, VALUES
from raftmeta.client.channel import Channel
from raftmeta.errors import InvalidArgument

PIECE_BYTES = 256 * 1024
PIECES_AHEAD = 4
PIECE_TIMEOUT_S = 30.0  # without a single piece for so long, no node has the file to give

Progress = Callable[[int, int], object]


async def fetch(channel: Channel, sink: BinaryIO, timeout_s: float | None, on_progress: Progress | None) -> None:
    """Write a whole sealed file into sink, from where that stands; on_progress gets bytes so far and bytes in all.

    timeout_s: until a node has the file. Raises NotExecuted when none has, or none gives a piece for 30 seconds.
    """
    start = sink.tell()
    known = b""
    while True:
        channel.check_open()
        footer, size = await channel.submit(channel.encoder.snapshot(), VALUES, channel.deadline(timeout_s))
        if footer != known:
            sink.seek(start)
            sink.truncate()
        known = footer
        if await _copy(channel, sink, start, size, on_progress):
            return


async def _copy(channel: Channel, sink: BinaryIO, start: int, size: int, on_progress: Progress | None) -> bool:
    """False: another node serves the client now, and has no file open for it."""
    asked = done = sink.tell() - start
    ahead: collections.deque[asyncio.Future[bytes]] = collections.deque()
    try:
        while done < size:
            while asked < size and len(ahead) < PIECES_AHEAD:
                length = min(PIECE_BYTES, size - asked)
                frame = channel.encoder.piece(asked, length)
                ahead.append(channel.submit(frame, BYTES, channel.deadline(PIECE_TIMEOUT_S)))
                asked += length
            piece = await ahead.popleft()
            if len(piece) != min(PIECE_BYTES, size - done):
                return False
            sink.write(piece)
            done += len(piece)
            if on_progress is not None:
                on_progress(done, size)
        return True
    except InvalidArgument:
        return False
    finally:
        await asyncio.gather(*ahead, return_exceptions=True)  # none may come when the next file is open
