"""etcd's messages as Python's dicts, written a second time: a mistake in the door's table does not hide in the tests.

A field is (number, kind), where kind is "int", "uint", "bool", "bytes", "text" or the name of a message. "[...]" is a
list.
"""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]

HEADER = {
    "cluster_id": (1, "uint"),
    "member_id": (2, "uint"),
    "revision": (3, "int"),
    "raft_term": (4, "uint"),
}

SCHEMA: dict[str, dict[str, tuple[int, str]]] = {
    "Header": HEADER,
    "KeyValue": {
        "key": (1, "bytes"),
        "create_revision": (2, "int"),
        "mod_revision": (3, "int"),
        "version": (4, "int"),
        "value": (5, "bytes"),
        "lease": (6, "int"),
    },
    "Range": {
        "key": (1, "bytes"),
        "range_end": (2, "bytes"),
        "limit": (3, "int"),
        "revision": (4, "int"),
        "sort_order": (5, "int"),
        "sort_target": (6, "int"),
        "serializable": (7, "bool"),
        "keys_only": (8, "bool"),
        "count_only": (9, "bool"),
        "min_mod_revision": (10, "int"),
        "max_mod_revision": (11, "int"),
        "min_create_revision": (12, "int"),
        "max_create_revision": (13, "int"),
    },
    "RangeReply": {"header": (1, "Header"), "kvs": (2, "[KeyValue]"), "more": (3, "bool"), "count": (4, "int")},
    "Put": {
        "key": (1, "bytes"),
        "value": (2, "bytes"),
        "lease": (3, "int"),
        "prev_kv": (4, "bool"),
        "ignore_value": (5, "bool"),
        "ignore_lease": (6, "bool"),
    },
    "PutReply": {"header": (1, "Header"), "prev_kv": (2, "KeyValue")},
    "DeleteRange": {"key": (1, "bytes"), "range_end": (2, "bytes"), "prev_kv": (3, "bool")},
    "DeleteRangeReply": {"header": (1, "Header"), "deleted": (2, "int"), "prev_kvs": (3, "[KeyValue]")},
    "RequestOp": {
        "range": (1, "Range"),
        "put": (2, "Put"),
        "delete": (3, "DeleteRange"),
        "txn": (4, "Txn"),
    },
    "ResponseOp": {
        "range": (1, "RangeReply"),
        "put": (2, "PutReply"),
        "delete": (3, "DeleteRangeReply"),
        "txn": (4, "TxnReply"),
    },
    "Compare": {
        "result": (1, "int"),
        "target": (2, "int"),
        "key": (3, "bytes"),
        "version": (4, "int"),
        "create_revision": (5, "int"),
        "mod_revision": (6, "int"),
        "value": (7, "bytes"),
        "lease": (8, "int"),
        "range_end": (64, "bytes"),
    },
    "Txn": {"compare": (1, "[Compare]"), "success": (2, "[RequestOp]"), "failure": (3, "[RequestOp]")},
    "TxnReply": {"header": (1, "Header"), "succeeded": (2, "bool"), "responses": (3, "[ResponseOp]")},
    "Compaction": {"revision": (1, "int"), "physical": (2, "bool")},
    "CompactionReply": {"header": (1, "Header")},
    "Member": {
        "ID": (1, "uint"),
        "name": (2, "text"),
        "peerURLs": (3, "[text]"),
        "clientURLs": (4, "[text]"),
        "isLearner": (5, "bool"),
    },
    "MemberList": {"linearizable": (1, "bool")},
    "MemberAdd": {"peerURLs": (1, "[text]"), "isLearner": (2, "bool")},
    "MemberRemove": {"ID": (1, "uint")},
    "MemberRemoveReply": {"header": (1, "Header"), "members": (2, "[Member]")},
    "MemberUpdate": {"ID": (1, "uint"), "peerURLs": (2, "[text]")},
    "MemberUpdateReply": {"header": (1, "Header"), "members": (2, "[Member]")},
    "MemberPromote": {"ID": (1, "uint")},
    "MemberPromoteReply": {"header": (1, "Header"), "members": (2, "[Member]")},
    "MemberListReply": {"header": (1, "Header"), "members": (2, "[Member]")},
    "Status": {},
    "StatusReply": {
        "header": (1, "Header"),
        "version": (2, "text"),
        "dbSize": (3, "int"),
        "leader": (4, "uint"),
        "raftIndex": (5, "uint"),
        "raftTerm": (6, "uint"),
        "raftAppliedIndex": (7, "uint"),
        "errors": (8, "[text]"),
        "dbSizeInUse": (9, "int"),
        "isLearner": (10, "bool"),
        "storageVersion": (11, "text"),
    },
    "Alarm": {"action": (1, "int"), "memberID": (2, "uint"), "alarm": (3, "int")},
    "AlarmReply": {"header": (1, "Header")},
    "HashKV": {"revision": (1, "int")},
    "HashKVReply": {
        "header": (1, "Header"),
        "hash": (2, "uint"),
        "compact_revision": (3, "int"),
        "hash_revision": (4, "int"),
    },
    "MoveLeader": {"targetID": (1, "uint")},
    "LeaseGrant": {"TTL": (1, "int"), "ID": (2, "int")},
    "LeaseGrantReply": {"header": (1, "Header"), "ID": (2, "int"), "TTL": (3, "int")},
    "LeaseRevoke": {"ID": (1, "int")},
    "LeaseRevokeReply": {"header": (1, "Header")},
    "LeaseTimeToLive": {"ID": (1, "int"), "keys": (2, "bool")},
    "LeaseTimeToLiveReply": {
        "header": (1, "Header"),
        "ID": (2, "int"),
        "TTL": (3, "int"),
        "grantedTTL": (4, "int"),
        "keys": (5, "[bytes]"),
    },
    "Lock": {"name": (1, "bytes"), "lease": (2, "int")},
    "LockReply": {"header": (1, "Header"), "key": (2, "bytes")},
    "Unlock": {"key": (1, "bytes")},
    "UnlockReply": {"header": (1, "Header")},
    "MoveLeaderReply": {"header": (1, "Header")},
    "Snapshot": {},
    "SnapshotReply": {
        "header": (1, "Header"),
        "remaining_bytes": (2, "uint"),
        "blob": (3, "bytes"),
        "version": (4, "text"),
    },
    "Event": {"type": (1, "int"), "kv": (2, "KeyValue"), "prev_kv": (3, "KeyValue")},
    "WatchCreate": {"key": (1, "bytes"), "range_end": (2, "bytes"), "start": (3, "int"), "watch_id": (7, "int")},
    "WatchCancel": {"watch_id": (1, "int")},
    "Watch": {"create": (1, "WatchCreate"), "cancel": (2, "WatchCancel")},
    "WatchReply": {
        "header": (1, "Header"),
        "watch_id": (2, "int"),
        "created": (3, "bool"),
        "canceled": (4, "bool"),
        "cancel_reason": (6, "text"),
        "events": (11, "[Event]"),
    },
    "KeepAlive": {"ID": (1, "int")},
    "KeepAliveReply": {"header": (1, "Header"), "ID": (2, "int"), "TTL": (3, "int")},
    "LeaderKey": {"name": (1, "bytes"), "key": (2, "bytes"), "rev": (3, "int"), "lease": (4, "int")},
    "Campaign": {"name": (1, "bytes"), "lease": (2, "int"), "value": (3, "bytes")},
    "Proclaim": {"leader": (1, "LeaderKey"), "value": (2, "bytes")},
    "Leader": {"name": (1, "bytes")},
    "Resign": {"leader": (1, "LeaderKey")},
    "AuthEnable": {},
    "AuthEnableReply": {"header": (1, "Header")},
    "AuthDisable": {},
    "AuthDisableReply": {"header": (1, "Header")},
    "AuthStatus": {},
    "AuthStatusReply": {"header": (1, "Header"), "enabled": (2, "bool"), "authRevision": (3, "uint")},
    "Authenticate": {"name": (1, "text"), "password": (2, "text")},
    "AuthenticateReply": {"header": (1, "Header"), "token": (2, "text")},
    "UserAddOptions": {"no_password": (1, "bool")},
    "UserAdd": {"name": (1, "text"), "password": (2, "text"), "options": (3, "UserAddOptions")},
    "UserAddReply": {"header": (1, "Header")},
    "UserGet": {"name": (1, "text")},
    "UserGetReply": {"header": (1, "Header"), "roles": (2, "[text]")},
    "UserList": {},
    "UserListReply": {"header": (1, "Header"), "users": (2, "[text]")},
    "UserDelete": {"name": (1, "text")},
    "UserDeleteReply": {"header": (1, "Header")},
    "UserChangePassword": {"name": (1, "text"), "password": (2, "text")},
    "UserChangePasswordReply": {"header": (1, "Header")},
    "UserGrantRole": {"user": (1, "text"), "role": (2, "text")},
    "UserGrantRoleReply": {"header": (1, "Header")},
    "UserRevokeRole": {"name": (1, "text"), "role": (2, "text")},
    "UserRevokeRoleReply": {"header": (1, "Header")},
    "Permission": {"permType": (1, "int"), "key": (2, "bytes"), "range_end": (3, "bytes")},
    "RoleAdd": {"name": (1, "text")},
    "RoleAddReply": {"header": (1, "Header")},
    "RoleGet": {"role": (1, "text")},
    "RoleGetReply": {"header": (1, "Header"), "perm": (2, "[Permission]")},
    "RoleList": {},
    "RoleListReply": {"header": (1, "Header"), "roles": (2, "[text]")},
    "RoleDelete": {"role": (1, "text")},
    "RoleDeleteReply": {"header": (1, "Header")},
    "RoleGrantPermission": {"name": (1, "text"), "perm": (2, "Permission")},
    "RoleGrantPermissionReply": {"header": (1, "Header")},
    "RoleRevokePermission": {"role": (1, "text"), "key": (2, "bytes"), "range_end": (3, "bytes")},
    "RoleRevokePermissionReply": {"header": (1, "Header")},
}

VARINT, BYTES = 0, 2
NUMBERS = {"int", "uint", "bool"}


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(name: str, values: Message) -> bytes:
    out = bytearray()
    for field, value in values.items():
        number, kind = SCHEMA[name][field]
        for one in value if kind.startswith("[") else [value]:
            out += _encode_field(number, kind.strip("[]"), one)
    return bytes(out)


def _encode_field(number: int, kind: str, value: Any) -> bytes:
    if kind in NUMBERS:
        return varint(number << 3 | VARINT) + varint(int(value))
    body = value if kind == "bytes" else value.encode() if kind == "text" else encode(kind, value)
    return varint(number << 3 | BYTES) + varint(len(body)) + body


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return value, at


def decode(name: str, data: bytes) -> Message:
    """Only the fields that are there; every one of them must be known."""
    by_number = {number: (field, kind) for field, (number, kind) in SCHEMA[name].items()}
    found: Message = {}
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        field, kind = by_number[tag >> 3]
        value, at = _read_varint(data, at)
        if tag & 7 == BYTES:
            value, at = data[at : at + value], at + value
        shown = _shown(kind.strip("[]"), value)
        if kind.startswith("["):
            found.setdefault(field, []).append(shown)
        else:
            found[field] = shown
    return found


def _shown(kind: str, value: Any) -> Any:
    if kind == "int" and value >> 63:
        return value - (1 << 64)
    if kind == "bool":
        return bool(value)
    if kind == "text":
        return value.decode()
    return value if kind in ("int", "uint", "bytes") else decode(kind, value)
