"""A worker in a process of its own: python -m tests.coordinator.program URL NAME RESOURCES.

It tells each event as a line of JSON. A line of its input has a resource and a number n: it writes its name under the
fence of the n-th assignment that had this resource, and tells how that went.
"""

from __future__ import annotations

import asyncio
import json
import sys

import raftmeta
import raftmeta.aio
from raftmeta.coordinator import Assigned, Settings, Workers

SETTINGS = Settings(session_timeout_s=2.0, rebalance_timeout_s=20.0, heartbeat_interval_s=0.1)


def tell(what: str, names: object, **more: object) -> None:
    print(json.dumps({"what": what, "names": names, **more}), flush=True)


async def write(client: raftmeta.aio.Client, name: str, fences: dict[str, list[raftmeta.Fence]]) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        resource, number = line.decode().split()
        try:
            await client.put(f"done/{resource}", name, fence=fences[resource][int(number)], timeout_s=60)
            tell("written", [resource])
        except raftmeta.Fenced:
            tell("fenced", [resource])


async def follow(workers: Workers, fences: dict[str, list[raftmeta.Fence]]) -> None:
    async for event in workers:
        if isinstance(event, Assigned):
            for resource in event.resources:
                fences.setdefault(resource, []).append(event.fence)
        tell(type(event).__name__.lower(), event.resources)


async def main(url: str, name: str, count: int) -> None:
    fences: dict[str, list[raftmeta.Fence]] = {}
    async with (
        raftmeta.aio.Client(url, name=name) as client,
        raftmeta.workers("pool", store=client, resources={"r": count}, settings=SETTINGS) as workers,
    ):
        await asyncio.gather(write(client, name, fences), follow(workers, fences))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
