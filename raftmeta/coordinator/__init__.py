"""raftmeta.coordinator: a member of a group, with the hooks of KIP-795, over any group service."""

from __future__ import annotations

from raftmeta.coordinator.awaited import AioCoordinator
from raftmeta.coordinator.machine import MemberMachine, MemberState, Settings
from raftmeta.coordinator.service import (
    Code,
    Generation,
    GroupRefused,
    GroupService,
    JoinReply,
    JoinRequest,
    MemberMetadata,
    SyncReply,
    SyncRequest,
)

__all__ = [
    "AioCoordinator",
    "Code",
    "Generation",
    "GroupRefused",
    "GroupService",
    "JoinReply",
    "JoinRequest",
    "MemberMachine",
    "MemberMetadata",
    "MemberState",
    "Settings",
    "SyncReply",
    "SyncRequest",
]
