"""Many sessions of ZooKeeper's protocol at once, each with an ephemeral node; they live until `close`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.compare.zookeeper import CREATE, OPEN_TO_ALL, Session, ZooKeeperError, text
from tests.doors.raw import EPHEMERAL, number

AT_ONCE = 200
PARENT = b"/sessions"


async def open_sessions(addresses: Sequence[str], count: int) -> list[Session]:
    """So many sessions, spread over the servers; on return each of their ephemeral nodes is made."""
    first = await Session.connect(addresses[0])
    await first.request(CREATE, text(PARENT) + text(b"") + OPEN_TO_ALL + number(0))
    opening = asyncio.Semaphore(AT_ONCE)

    async def one(place: int) -> Session:
        async with opening:
            session = await Session.connect(addresses[place % len(addresses)])
            body = text(PARENT + b"/%d" % place) + text(b"") + OPEN_TO_ALL + number(EPHEMERAL)
            if code := await session.request(CREATE, body):
                raise ZooKeeperError(f"create was answered with {code}")
            return session

    return [first, *await asyncio.gather(*map(one, range(count)))]
