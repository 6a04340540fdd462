"""Which methods the etcd door has: bodies."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, strlen

from raftmeta.doors.etcd.auth cimport (auth_answered, auth_closed, auth_go, auth_message, authenticate_go,
                                       authenticate_message)
from raftmeta.doors.etcd.cluster cimport (alarm_message, defragment_message, hash_kv_message, hash_message,
                                          member_list_go, member_list_message, move_leader_answered,
                                          move_leader_message, status_message)
from raftmeta.doors.etcd.leases cimport (
    lease_grant_answered, lease_grant_message, lease_keep_alive_answered, lease_keep_alive_half_closed,
    lease_keep_alive_message, lease_list_answered, lease_list_go, lease_list_message, lease_revoke_answered,
    lease_revoke_go, lease_revoke_message, lease_show_answered, lease_show_go, lease_show_message)
from raftmeta.doors.etcd.locks cimport (
    campaign_message, leader_go, leader_message, lock_message, observe_closed, observe_go, observe_message,
    plain_answered, proclaim_answered, proclaim_message, queue_answered, queue_closed, queue_go, queue_half_closed,
    resign_message, unlock_message)
from raftmeta.doors.etcd.members cimport (member_add_message, member_change_answered, member_change_go,
                                          member_change_message)
from raftmeta.doors.etcd.ranges cimport range_go, range_message
from raftmeta.doors.etcd.schema cimport (
    MESSAGE_CAMPAIGN, MESSAGE_CAMPAIGN_REPLY, MESSAGE_LEADER, MESSAGE_LEADER_REPLY, MESSAGE_LEASE_GRANT,
    MESSAGE_LEASE_GRANT_REPLY, MESSAGE_LEASE_KEEP_ALIVE, MESSAGE_LEASE_KEEP_ALIVE_REPLY, MESSAGE_LEASE_LEASES,
    MESSAGE_LEASE_LEASES_REPLY, MESSAGE_LEASE_REVOKE, MESSAGE_LEASE_REVOKE_REPLY, MESSAGE_LEASE_TIME_TO_LIVE,
    MESSAGE_LEASE_TIME_TO_LIVE_REPLY, MESSAGE_LOCK, MESSAGE_LOCK_REPLY, MESSAGE_PROCLAIM, MESSAGE_PROCLAIM_REPLY,
    MESSAGE_RESIGN, MESSAGE_RESIGN_REPLY, MESSAGE_UNLOCK, MESSAGE_UNLOCK_REPLY, MESSAGE_WATCH, MESSAGE_WATCH_REPLY,
    MESSAGE_ALARM, MESSAGE_ALARM_REPLY, MESSAGE_COMPACTION, MESSAGE_COMPACTION_REPLY, MESSAGE_DEFRAGMENT,
    MESSAGE_DEFRAGMENT_REPLY, MESSAGE_DELETE_RANGE, MESSAGE_DELETE_RANGE_REPLY, MESSAGE_HASH, MESSAGE_HASH_KV,
    MESSAGE_HASH_KV_REPLY, MESSAGE_HASH_REPLY, MESSAGE_MEMBER_LIST, MESSAGE_MEMBER_LIST_REPLY, MESSAGE_MOVE_LEADER,
    MESSAGE_MOVE_LEADER_REPLY, MESSAGE_PUT, MESSAGE_PUT_REPLY, MESSAGE_RANGE, MESSAGE_RANGE_REPLY, MESSAGE_STATUS,
    MESSAGE_STATUS_REPLY, MESSAGE_TXN, MESSAGE_TXN_REPLY,
    MESSAGE_MEMBER_ADD, MESSAGE_MEMBER_PROMOTE, MESSAGE_MEMBER_REMOVE, MESSAGE_MEMBER_UPDATE, MESSAGE_MEMBERS_REPLY,
    MESSAGE_AUTH_DISABLE, MESSAGE_AUTH_ENABLE, MESSAGE_AUTH_STATUS, MESSAGE_AUTH_STATUS_REPLY, MESSAGE_AUTHENTICATE,
    MESSAGE_AUTHENTICATE_REPLY, MESSAGE_HEADER_ALONE, MESSAGE_ROLE_ADD, MESSAGE_ROLE_DELETE, MESSAGE_ROLE_GET,
    MESSAGE_ROLE_GET_REPLY, MESSAGE_ROLE_GRANT, MESSAGE_ROLE_LIST, MESSAGE_ROLE_LIST_REPLY, MESSAGE_ROLE_REVOKE,
    MESSAGE_USER_ADD, MESSAGE_USER_CHANGE_PASSWORD, MESSAGE_USER_DELETE, MESSAGE_USER_GET, MESSAGE_USER_GET_REPLY,
    MESSAGE_USER_GRANT, MESSAGE_USER_LIST, MESSAGE_USER_LIST_REPLY, MESSAGE_USER_REVOKE, MESSAGE_SNAPSHOT,
    MESSAGE_SNAPSHOT_REPLY)
from raftmeta.doors.etcd.snapshot cimport (snapshot_answered, snapshot_closed, snapshot_go, snapshot_half_closed,
                                           snapshot_message)
from raftmeta.doors.etcd.state cimport ETCD_ALWAYS, ETCD_CHANGES, ETCD_STREAM, EtcdCall, EtcdDoor, EtcdTask
from raftmeta.doors.etcd.watches cimport watches_closed, watches_go, watches_half_closed, watches_message
from raftmeta.doors.etcd.writes cimport (compact_answered, compact_message, delete_answered, delete_message,
                                         put_answered, put_message, txn_answered, txn_go, txn_message)
from raftmeta.security.audit_queue cimport (AUDIT_AUTH_BIND, AUDIT_AUTH_DISABLE, AUDIT_AUTH_ENABLE, AUDIT_AUTH_GRANT,
                                            AUDIT_AUTH_REVOKE, AUDIT_AUTH_ROLE_PUT, AUDIT_AUTH_ROLE_REMOVE,
                                            AUDIT_AUTH_SHOW, AUDIT_AUTH_UNBIND, AUDIT_AUTH_USER_PUT,
                                            AUDIT_AUTH_USER_REMOVE, AUDIT_AUTHENTICATE, AUDIT_COMPACT, AUDIT_CREATE,
                                            AUDIT_DELETE,
                                            AUDIT_DELETE_RANGE, AUDIT_GET, AUDIT_LEASE_GRANT, AUDIT_LEASE_LIST,
                                            AUDIT_LEASE_REVOKE, AUDIT_MEMBER_CHANGE, AUDIT_PUT, AUDIT_RANGE,
                                            AUDIT_SNAPSHOT, AUDIT_TRANSACTION, AUDIT_TRANSFER, AUDIT_UPDATE)
from raftmeta.wire.commands cimport Bytes

ctypedef void (*takes_message)(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
ctypedef void (*takes_call)(EtcdDoor* door, EtcdCall* call) noexcept nogil
ctypedef void (*takes_task)(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil

cdef EtcdHandler[ETCD_HANDLERS_MAX] TABLE
cdef int COUNT = 0


cdef const EtcdHandler* handler_of(const uint8_t* path, uint32_t length) noexcept nogil:
    cdef int i
    for i in range(COUNT):
        if strlen(TABLE[i].path) == length and memcmp(TABLE[i].path, path, length) == 0:
            return &TABLE[i]
    return NULL


cdef void _row(const char* path, uint16_t request, uint16_t reply, uint8_t traits, takes_message message,
               takes_call go, takes_task answered, takes_call half_closed=NULL, takes_call closed=NULL) noexcept nogil:
    global COUNT
    cdef EtcdHandler* handler = &TABLE[COUNT]
    handler.path = path
    handler.request = request
    handler.reply = reply
    handler.traits = traits
    handler.message = message
    handler.go = go
    handler.answered = answered
    handler.half_closed = half_closed
    handler.closed = closed
    COUNT += 1


# The calls of the last row give a line of the audit trail.
cdef void _told_as(uint8_t operation) noexcept nogil:
    TABLE[COUNT - 1].operation = operation


cdef void _fill() noexcept nogil:
    _row(b"/etcdserverpb.KV/Range", MESSAGE_RANGE, MESSAGE_RANGE_REPLY, 0, range_message, range_go, NULL)
    _told_as(AUDIT_RANGE)
    _row(b"/etcdserverpb.KV/Put", MESSAGE_PUT, MESSAGE_PUT_REPLY, ETCD_CHANGES, put_message, NULL, put_answered)
    _told_as(AUDIT_PUT)
    _row(b"/etcdserverpb.KV/DeleteRange", MESSAGE_DELETE_RANGE, MESSAGE_DELETE_RANGE_REPLY, ETCD_CHANGES,
         delete_message, NULL, delete_answered)
    _told_as(AUDIT_DELETE_RANGE)
    _row(b"/etcdserverpb.KV/Txn", MESSAGE_TXN, MESSAGE_TXN_REPLY, ETCD_CHANGES, txn_message, txn_go,
         txn_answered)
    _told_as(AUDIT_TRANSACTION)
    _row(b"/etcdserverpb.KV/Compact", MESSAGE_COMPACTION, MESSAGE_COMPACTION_REPLY, ETCD_CHANGES, compact_message,
         NULL, compact_answered)
    _told_as(AUDIT_COMPACT)
    _row(b"/etcdserverpb.Cluster/MemberList", MESSAGE_MEMBER_LIST, MESSAGE_MEMBER_LIST_REPLY, 0, member_list_message,
         member_list_go, NULL)
    _row(b"/etcdserverpb.Cluster/MemberAdd", MESSAGE_MEMBER_ADD, MESSAGE_MEMBERS_REPLY, ETCD_CHANGES,
         member_add_message, NULL, NULL)
    _told_as(AUDIT_MEMBER_CHANGE)
    _row(b"/etcdserverpb.Cluster/MemberRemove", MESSAGE_MEMBER_REMOVE, MESSAGE_MEMBERS_REPLY, ETCD_CHANGES,
         member_change_message, member_change_go, member_change_answered)
    _told_as(AUDIT_MEMBER_CHANGE)
    _row(b"/etcdserverpb.Cluster/MemberUpdate", MESSAGE_MEMBER_UPDATE, MESSAGE_MEMBERS_REPLY, ETCD_CHANGES,
         member_change_message, member_change_go, member_change_answered)
    _told_as(AUDIT_MEMBER_CHANGE)
    _row(b"/etcdserverpb.Cluster/MemberPromote", MESSAGE_MEMBER_PROMOTE, MESSAGE_MEMBERS_REPLY, ETCD_CHANGES,
         member_change_message, member_change_go, member_change_answered)
    _told_as(AUDIT_MEMBER_CHANGE)
    _row(b"/etcdserverpb.Maintenance/Status", MESSAGE_STATUS, MESSAGE_STATUS_REPLY, ETCD_ALWAYS, status_message, NULL,
         NULL)
    _row(b"/etcdserverpb.Maintenance/Alarm", MESSAGE_ALARM, MESSAGE_ALARM_REPLY, 0, alarm_message, NULL, NULL)
    _row(b"/etcdserverpb.Maintenance/Defragment", MESSAGE_DEFRAGMENT, MESSAGE_DEFRAGMENT_REPLY, 0, defragment_message,
         NULL, NULL)
    _row(b"/etcdserverpb.Maintenance/Hash", MESSAGE_HASH, MESSAGE_HASH_REPLY, 0, hash_message, NULL, NULL)
    _row(b"/etcdserverpb.Maintenance/HashKV", MESSAGE_HASH_KV, MESSAGE_HASH_KV_REPLY, 0, hash_kv_message, NULL, NULL)
    _row(b"/etcdserverpb.Maintenance/MoveLeader", MESSAGE_MOVE_LEADER, MESSAGE_MOVE_LEADER_REPLY, ETCD_CHANGES,
         move_leader_message, NULL, move_leader_answered)
    _told_as(AUDIT_TRANSFER)
    _row(b"/etcdserverpb.Maintenance/Snapshot", MESSAGE_SNAPSHOT, MESSAGE_SNAPSHOT_REPLY, ETCD_STREAM,
         snapshot_message, snapshot_go, snapshot_answered, snapshot_half_closed, snapshot_closed)
    _told_as(AUDIT_SNAPSHOT)


cdef void _fill_streams() noexcept nogil:
    _row(b"/etcdserverpb.Watch/Watch", MESSAGE_WATCH, MESSAGE_WATCH_REPLY, ETCD_STREAM, watches_message, watches_go,
         NULL, watches_half_closed, watches_closed)
    _row(b"/etcdserverpb.Lease/LeaseGrant", MESSAGE_LEASE_GRANT, MESSAGE_LEASE_GRANT_REPLY, ETCD_CHANGES,
         lease_grant_message, NULL, lease_grant_answered)
    _told_as(AUDIT_LEASE_GRANT)
    _row(b"/etcdserverpb.Lease/LeaseRevoke", MESSAGE_LEASE_REVOKE, MESSAGE_LEASE_REVOKE_REPLY, ETCD_CHANGES,
         lease_revoke_message, lease_revoke_go, lease_revoke_answered)
    _told_as(AUDIT_LEASE_REVOKE)
    _row(b"/etcdserverpb.Lease/LeaseKeepAlive", MESSAGE_LEASE_KEEP_ALIVE, MESSAGE_LEASE_KEEP_ALIVE_REPLY, ETCD_STREAM,
         lease_keep_alive_message, NULL, lease_keep_alive_answered, lease_keep_alive_half_closed)
    _row(b"/etcdserverpb.Lease/LeaseTimeToLive", MESSAGE_LEASE_TIME_TO_LIVE, MESSAGE_LEASE_TIME_TO_LIVE_REPLY, 0,
         lease_show_message, lease_show_go, lease_show_answered)
    _told_as(AUDIT_LEASE_LIST)
    _row(b"/etcdserverpb.Lease/LeaseLeases", MESSAGE_LEASE_LEASES, MESSAGE_LEASE_LEASES_REPLY, 0, lease_list_message,
         lease_list_go, lease_list_answered)
    _told_as(AUDIT_LEASE_LIST)


# Those that wait have the trait of a stream, so that no time-out ends them.
cdef void _fill_locks() noexcept nogil:
    _row(b"/v3lockpb.Lock/Lock", MESSAGE_LOCK, MESSAGE_LOCK_REPLY, ETCD_STREAM | ETCD_CHANGES, lock_message, queue_go,
         queue_answered, queue_half_closed, queue_closed)
    _told_as(AUDIT_CREATE)
    _row(b"/v3lockpb.Lock/Unlock", MESSAGE_UNLOCK, MESSAGE_UNLOCK_REPLY, ETCD_CHANGES, unlock_message, NULL,
         plain_answered)
    _told_as(AUDIT_DELETE)
    _row(b"/v3electionpb.Election/Campaign", MESSAGE_CAMPAIGN, MESSAGE_CAMPAIGN_REPLY, ETCD_STREAM | ETCD_CHANGES,
         campaign_message, queue_go, queue_answered, queue_half_closed, queue_closed)
    _told_as(AUDIT_CREATE)
    _row(b"/v3electionpb.Election/Proclaim", MESSAGE_PROCLAIM, MESSAGE_PROCLAIM_REPLY, ETCD_CHANGES, proclaim_message,
         NULL, proclaim_answered)
    _told_as(AUDIT_UPDATE)
    _row(b"/v3electionpb.Election/Leader", MESSAGE_LEADER, MESSAGE_LEADER_REPLY, 0, leader_message, leader_go, NULL)
    _told_as(AUDIT_GET)
    _row(b"/v3electionpb.Election/Observe", MESSAGE_LEADER, MESSAGE_LEADER_REPLY, ETCD_STREAM, observe_message,
         observe_go, NULL, queue_half_closed, observe_closed)
    _row(b"/v3electionpb.Election/Resign", MESSAGE_RESIGN, MESSAGE_RESIGN_REPLY, ETCD_CHANGES, resign_message, NULL,
         plain_answered)
    _told_as(AUDIT_DELETE)


cdef void _auth(const char* path, uint16_t request, uint16_t reply, uint8_t traits, uint8_t operation) noexcept nogil:
    _row(path, request, reply, traits, auth_message, auth_go, auth_answered, NULL, auth_closed)
    _told_as(operation)


cdef void _fill_auth() noexcept nogil:
    _row(b"/etcdserverpb.Auth/Authenticate", MESSAGE_AUTHENTICATE, MESSAGE_AUTHENTICATE_REPLY, 0,
         authenticate_message, authenticate_go, NULL, NULL, auth_closed)
    _told_as(AUDIT_AUTHENTICATE)
    _auth(b"/etcdserverpb.Auth/AuthEnable", MESSAGE_AUTH_ENABLE, MESSAGE_HEADER_ALONE, ETCD_CHANGES,
          AUDIT_AUTH_ENABLE)
    _auth(b"/etcdserverpb.Auth/AuthDisable", MESSAGE_AUTH_DISABLE, MESSAGE_HEADER_ALONE, ETCD_CHANGES,
          AUDIT_AUTH_DISABLE)
    _auth(b"/etcdserverpb.Auth/AuthStatus", MESSAGE_AUTH_STATUS, MESSAGE_AUTH_STATUS_REPLY, 0, AUDIT_AUTH_SHOW)
    _auth(b"/etcdserverpb.Auth/UserAdd", MESSAGE_USER_ADD, MESSAGE_HEADER_ALONE, ETCD_CHANGES, AUDIT_AUTH_USER_PUT)
    _auth(b"/etcdserverpb.Auth/UserGet", MESSAGE_USER_GET, MESSAGE_USER_GET_REPLY, 0, AUDIT_AUTH_SHOW)
    _auth(b"/etcdserverpb.Auth/UserList", MESSAGE_USER_LIST, MESSAGE_USER_LIST_REPLY, 0, AUDIT_AUTH_SHOW)
    _auth(b"/etcdserverpb.Auth/UserDelete", MESSAGE_USER_DELETE, MESSAGE_HEADER_ALONE, ETCD_CHANGES,
          AUDIT_AUTH_USER_REMOVE)
    _auth(b"/etcdserverpb.Auth/UserChangePassword", MESSAGE_USER_CHANGE_PASSWORD, MESSAGE_HEADER_ALONE, ETCD_CHANGES,
          AUDIT_AUTH_USER_PUT)
    _auth(b"/etcdserverpb.Auth/UserGrantRole", MESSAGE_USER_GRANT, MESSAGE_HEADER_ALONE, ETCD_CHANGES,
          AUDIT_AUTH_BIND)
    _auth(b"/etcdserverpb.Auth/UserRevokeRole", MESSAGE_USER_REVOKE, MESSAGE_HEADER_ALONE, ETCD_CHANGES,
          AUDIT_AUTH_UNBIND)
    _auth(b"/etcdserverpb.Auth/RoleAdd", MESSAGE_ROLE_ADD, MESSAGE_HEADER_ALONE, ETCD_CHANGES, AUDIT_AUTH_ROLE_PUT)
    _auth(b"/etcdserverpb.Auth/RoleGet", MESSAGE_ROLE_GET, MESSAGE_ROLE_GET_REPLY, 0, AUDIT_AUTH_SHOW)
    _auth(b"/etcdserverpb.Auth/RoleList", MESSAGE_ROLE_LIST, MESSAGE_ROLE_LIST_REPLY, 0, AUDIT_AUTH_SHOW)
    _auth(b"/etcdserverpb.Auth/RoleDelete", MESSAGE_ROLE_DELETE, MESSAGE_HEADER_ALONE, ETCD_CHANGES,
          AUDIT_AUTH_ROLE_REMOVE)
    _auth(b"/etcdserverpb.Auth/RoleGrantPermission", MESSAGE_ROLE_GRANT, MESSAGE_HEADER_ALONE, ETCD_CHANGES,
          AUDIT_AUTH_GRANT)
    _auth(b"/etcdserverpb.Auth/RoleRevokePermission", MESSAGE_ROLE_REVOKE, MESSAGE_HEADER_ALONE, ETCD_CHANGES,
          AUDIT_AUTH_REVOKE)


_fill()
_fill_auth()
_fill_streams()
_fill_locks()
