"""raftmeta: Raft consensus inside your own processes.

    with raftmeta.Node("a", peers={"a": "127.0.0.1:7001", ...}, data_dir="/var/lib/broker/a") as node:
        node.ready(10)
        node.put("topics/t", b"3")

Node blocks, raftmeta.aio.Node awaits; Client and aio.Client ask a cluster from a process that runs no node. Config has
every setting; errors tell what became of the operation (raftmeta/errors.py). Operations and compares of transactions
stand here, too; all of them are described in raftmeta.operations.
"""

from __future__ import annotations

import importlib
import typing

from raftmeta.version import VERSION as _VERSION

if typing.TYPE_CHECKING:
    from raftmeta import aio, interfaces, operations, recipes
    from raftmeta.backends import connect
    from raftmeta.bindings.revision import Revision
    from raftmeta.clients import Client
    from raftmeta.config import Config
    from raftmeta.errors import (
        AddressInUse,
        AuthenticationFailed,
        ChangeRefused,
        CommandFailed,
        CommandRefused,
        Compacted,
        CompareFailed,
        ConfigError,
        DiskFailed,
        EncryptionKeyMissing,
        Fatal,
        Fenced,
        FolderInUse,
        ForeignFolder,
        ForkedProcess,
        FutureRevision,
        HistoryLost,
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
        PermissionDenied,
        QuotaExceeded,
        RaftmetaError,
        ReadyTimeout,
        Refused,
        Rejected,
        SnapshotDamaged,
        StateDiverged,
        StorageCorrupt,
        Unsupported,
        Withdrawn,
        ZnodeRefused,
    )
    from raftmeta.face.user_machine import UserMachine
    from raftmeta.interfaces import Capabilities
    from raftmeta.node import Node
    from raftmeta.operations import (
        Add,
        Compare,
        Create,
        CreateRevision,
        Delete,
        DeleteRange,
        Fence,
        Get,
        KeyRecord,
        ModRevision,
        Put,
        Range,
        RangeEmpty,
        RangeResult,
        Txn,
        TxnResult,
        Update,
        Value,
        Version,
        Znode,
        ZnodeCheck,
        ZnodeCreate,
        ZnodeCreated,
        ZnodeDelete,
        ZnodeRecord,
        ZnodeSetAcl,
        ZnodeSetData,
        ZnodeStat,
        prefix_end,
    )
    from raftmeta.recipes.views import View
    from raftmeta.results import (
        MemberStatus,
        NodeEvent,
        NodeStatus,
        Problem,
        TxnReply,
        WatchBatch,
        WatchEvent,
        WatchReset,
        ZnodeFound,
        ZnodesReply,
    )
    from raftmeta.security.audit import Audit
    from raftmeta.security.encryption import Encryption
    from raftmeta.security.settings import Tls
    from raftmeta.user_machines.classes import Entry, command, current_entry, invariant, replicated
    from raftmeta.verbs.lease import Lease
    from raftmeta.verbs.watch import Watch

__version__ = _VERSION

__all__ = [
    "Add",
    "AddressInUse",
    "Audit",
    "AuthenticationFailed",
    "Capabilities",
    "ChangeRefused",
    "Client",
    "CommandFailed",
    "CommandRefused",
    "Compacted",
    "Compare",
    "CompareFailed",
    "Config",
    "ConfigError",
    "Create",
    "CreateRevision",
    "Delete",
    "DeleteRange",
    "DiskFailed",
    "Encryption",
    "EncryptionKeyMissing",
    "Entry",
    "Fatal",
    "Fence",
    "Fenced",
    "FolderInUse",
    "ForeignFolder",
    "ForkedProcess",
    "FutureRevision",
    "Get",
    "HistoryLost",
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
    "ModRevision",
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
    "PermissionDenied",
    "Problem",
    "Put",
    "QuotaExceeded",
    "RaftmetaError",
    "Range",
    "RangeEmpty",
    "RangeResult",
    "ReadyTimeout",
    "Refused",
    "Rejected",
    "Revision",
    "SnapshotDamaged",
    "StateDiverged",
    "StorageCorrupt",
    "Tls",
    "Txn",
    "TxnReply",
    "TxnResult",
    "Unsupported",
    "Update",
    "UserMachine",
    "Value",
    "Version",
    "View",
    "Watch",
    "WatchBatch",
    "WatchEvent",
    "WatchReset",
    "Withdrawn",
    "Znode",
    "ZnodeCheck",
    "ZnodeCreate",
    "ZnodeCreated",
    "ZnodeDelete",
    "ZnodeFound",
    "ZnodeRecord",
    "ZnodeRefused",
    "ZnodeSetAcl",
    "ZnodeSetData",
    "ZnodeStat",
    "ZnodesReply",
    "aio",
    "command",
    "connect",
    "current_entry",
    "interfaces",
    "invariant",
    "operations",
    "prefix_end",
    "recipes",
    "replicated",
]

# A name is imported when it is first asked for: a program that only blocks loads neither asyncio nor ssl, and one that
# only catches errors loads no engine. Type checkers read the imports above. A name of neither table is an error's.
_HOMES = {
    "Add": "raftmeta.operations",
    "Audit": "raftmeta.security.audit",
    "Capabilities": "raftmeta.interfaces",
    "Client": "raftmeta.clients",
    "Compare": "raftmeta.operations",
    "Config": "raftmeta.config",
    "Create": "raftmeta.operations",
    "CreateRevision": "raftmeta.operations",
    "Delete": "raftmeta.operations",
    "DeleteRange": "raftmeta.operations",
    "Encryption": "raftmeta.security.encryption",
    "Entry": "raftmeta.user_machines.classes",
    "Fence": "raftmeta.operations",
    "Get": "raftmeta.operations",
    "KeyRecord": "raftmeta.operations",
    "Lease": "raftmeta.verbs.lease",
    "MemberStatus": "raftmeta.results",
    "ModRevision": "raftmeta.operations",
    "Node": "raftmeta.node",
    "NodeEvent": "raftmeta.results",
    "NodeStatus": "raftmeta.results",
    "Problem": "raftmeta.results",
    "Put": "raftmeta.operations",
    "Range": "raftmeta.operations",
    "RangeEmpty": "raftmeta.operations",
    "RangeResult": "raftmeta.operations",
    "Revision": "raftmeta.bindings.revision",
    "Tls": "raftmeta.security.settings",
    "Txn": "raftmeta.operations",
    "TxnReply": "raftmeta.results",
    "TxnResult": "raftmeta.operations",
    "Update": "raftmeta.operations",
    "UserMachine": "raftmeta.face.user_machine",
    "Value": "raftmeta.operations",
    "Version": "raftmeta.operations",
    "Znode": "raftmeta.operations",
    "ZnodeCheck": "raftmeta.operations",
    "ZnodeCreate": "raftmeta.operations",
    "ZnodeCreated": "raftmeta.operations",
    "ZnodeDelete": "raftmeta.operations",
    "ZnodeFound": "raftmeta.results",
    "ZnodeRecord": "raftmeta.operations",
    "ZnodeSetAcl": "raftmeta.operations",
    "ZnodeSetData": "raftmeta.operations",
    "ZnodeStat": "raftmeta.operations",
    "ZnodesReply": "raftmeta.results",
    "View": "raftmeta.recipes.views",
    "Watch": "raftmeta.verbs.watch",
    "WatchBatch": "raftmeta.results",
    "WatchEvent": "raftmeta.results",
    "WatchReset": "raftmeta.results",
    "command": "raftmeta.user_machines.classes",
    "connect": "raftmeta.backends",
    "current_entry": "raftmeta.user_machines.classes",
    "invariant": "raftmeta.user_machines.classes",
    "prefix_end": "raftmeta.operations",
    "replicated": "raftmeta.user_machines.classes",
}
_MODULES = frozenset(
    {
        "aio",
        "backends",
        "clients",
        "config",
        "errors",
        "interfaces",
        "node",
        "operations",
        "recipes",
        "replicated_class",
        "results",
    }
)

if not typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"raftmeta.{name}")
        if name not in __all__:
            raise AttributeError(f"module 'raftmeta' has no attribute {name!r}", name=name)
        value = getattr(importlib.import_module(_HOMES.get(name, "raftmeta.errors")), name)
        globals()[name] = value  # from now on found without asking here
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_MODULES})
