"""raftmeta.coordinator: a member of a worker group, with the hooks of KIP-795; and workers, which share resources.

    async for event in raftmeta.workers("resizers", store=client, resources={"images": 12}):
        match event:
            case coordinator.Assigned(): ...

docs/coordinator.md has both. Coordinator is for threads, AioCoordinator for asyncio; workers are what their store is.
"""

from __future__ import annotations

from raftmeta.coordinator.awaited import AioCoordinator
from raftmeta.coordinator.blocking import Coordinator
from raftmeta.coordinator.blocking_workers import BlockingWorkers
from raftmeta.coordinator.entry import workers
from raftmeta.coordinator.machine import MemberMachine, MemberState, Settings
from raftmeta.coordinator.service import (
    AioGroupService,
    Code,
    Generation,
    GroupService,
    JoinReply,
    JoinRequest,
    MemberMetadata,
    SyncReply,
    SyncRequest,
)
from raftmeta.coordinator.sharing import Assigned, Lost, Revoked
from raftmeta.coordinator.store import AioStoreGroup, StoreGroup
from raftmeta.coordinator.workers import Workers

__all__ = [
    "AioCoordinator",
    "AioGroupService",
    "AioStoreGroup",
    "Assigned",
    "BlockingWorkers",
    "Code",
    "Coordinator",
    "Generation",
    "GroupService",
    "JoinReply",
    "JoinRequest",
    "Lost",
    "MemberMachine",
    "MemberMetadata",
    "MemberState",
    "Revoked",
    "Settings",
    "StoreGroup",
    "SyncReply",
    "SyncRequest",
    "Workers",
    "workers",
]
