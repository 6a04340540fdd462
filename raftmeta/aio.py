"""The asyncio face: the verbs of raftmeta.Node as coroutines, on asyncio and uvloop.

    async with raftmeta.aio.Node("a", peers=..., data_dir=...) as node:
        await node.ready(10)
        await node.put("topics/t", b"3")

A node that runs already has a face for each event loop: `node.aio()`. A face belongs to the event loop of its first
call.
"""

from raftmeta.runtime.node_aio import AioLease as Lease
from raftmeta.runtime.node_aio import AioPendingResult as PendingResult
from raftmeta.runtime.node_aio import AioWatch as Watch
from raftmeta.runtime.node_aio import Node

__all__ = ["Lease", "Node", "PendingResult", "Watch"]
