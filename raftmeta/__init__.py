"""raftmeta: Raft consensus inside your own processes.

    with raftmeta.Node("a", peers={"a": "127.0.0.1:7001", ...}, data_dir="/var/lib/broker/a") as node:
        node.ready(10)
        node.put("topics/t", b"3")

Node blocks, raftmeta.aio.Node awaits; Client and aio.Client ask a cluster from a process that runs no node. Config has
every setting; errors tell what became of the operation (raftmeta/errors.py). Operations and compares of transactions
are in raftmeta.operations.
"""

from raftmeta import aio, interfaces, operations, recipes
from raftmeta.backends import connect
from raftmeta.clients import Client
from raftmeta.config import Config
from raftmeta.errors import (
    AddressInUse,
    ChangeRefused,
    CommandFailed,
    CommandRefused,
    Compacted,
    CompareFailed,
    ConfigError,
    DiskFailed,
    Fatal,
    Fenced,
    FolderInUse,
    ForeignFolder,
    ForkedProcess,
    FutureRevision,
    IdConflict,
    InvalidArgument,
    InvariantBroken,
    KeyExists,
    KeyMissing,
    Lagged,
    LeaseExpired,
    MachineStopped,
    NewerFormat,
    NodeClosed,
    NodeRemoved,
    NoLeader,
    NoSpace,
    NotExecuted,
    NotReady,
    OutcomeTimeout,
    OutcomeUnknown,
    OutOfMemory,
    Overloaded,
    RaftmetaError,
    ReadyTimeout,
    Refused,
    Rejected,
    SnapshotDamaged,
    StateDiverged,
    StorageCorrupt,
    Unsupported,
    Withdrawn,
)
from raftmeta.interfaces import Capabilities
from raftmeta.node import Node
from raftmeta.operations import Fence, KeyRecord, RangeResult, TxnResult
from raftmeta.replicated_class import Entry, command, current_entry, invariant, replicated
from raftmeta.results import MemberStatus, NodeEvent, NodeStatus, TxnReply, WatchBatch, WatchEvent, WatchReset
from raftmeta.runtime.node_lease import Lease
from raftmeta.runtime.node_watch import Watch
from raftmeta.runtime.user_machine import UserMachine
from raftmeta.version import VERSION as _VERSION
from raftmeta.wire.revision import Revision

__version__ = _VERSION

__all__ = [
    "AddressInUse",
    "Capabilities",
    "ChangeRefused",
    "Client",
    "CommandFailed",
    "CommandRefused",
    "Compacted",
    "CompareFailed",
    "Config",
    "ConfigError",
    "DiskFailed",
    "Entry",
    "Fatal",
    "Fence",
    "Fenced",
    "FolderInUse",
    "ForeignFolder",
    "ForkedProcess",
    "FutureRevision",
    "IdConflict",
    "InvalidArgument",
    "InvariantBroken",
    "KeyExists",
    "KeyMissing",
    "KeyRecord",
    "Lagged",
    "Lease",
    "LeaseExpired",
    "MachineStopped",
    "MemberStatus",
    "NewerFormat",
    "NoLeader",
    "NoSpace",
    "Node",
    "NodeClosed",
    "NodeEvent",
    "NodeRemoved",
    "NodeStatus",
    "NotExecuted",
    "NotReady",
    "OutOfMemory",
    "OutcomeTimeout",
    "OutcomeUnknown",
    "Overloaded",
    "RaftmetaError",
    "RangeResult",
    "ReadyTimeout",
    "Refused",
    "Rejected",
    "Revision",
    "SnapshotDamaged",
    "StateDiverged",
    "StorageCorrupt",
    "TxnReply",
    "TxnResult",
    "Unsupported",
    "UserMachine",
    "Watch",
    "WatchBatch",
    "WatchEvent",
    "WatchReset",
    "Withdrawn",
    "aio",
    "command",
    "connect",
    "current_entry",
    "interfaces",
    "invariant",
    "operations",
    "recipes",
    "replicated",
]
