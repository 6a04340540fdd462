"""Quotas of principals at the ZooKeeper door: bodies."""

from libc.stdint cimport int32_t, uint32_t, uint64_t

from raftmeta.connections.accounts cimport (accounts_attach, accounts_refused, accounts_spend, holding_begin,
                                            holding_end, holding_move)
from raftmeta.connections.accounts_state cimport Account, Holding, account_drop, account_hold
from raftmeta.doors.zookeeper.access cimport access_principal
from raftmeta.doors.zookeeper.protocol cimport (ZK_ADD_WATCH, ZK_AUTH, ZK_CHECK_WATCHES, ZK_CLOSE_SESSION, ZK_DELETE,
                                                ZK_IS_WRITE, ZK_OK, ZK_PING, ZK_REMOVE_WATCHES, ZK_SASL, ZK_SET_WATCHES,
                                                ZK_SET_WATCHES2, ZK_THROTTLED)
from raftmeta.doors.zookeeper.watch_table cimport watch_list_count
from raftmeta.native.atomics cimport add_shared, load_shared
from raftmeta.status cimport OK, QUOTA_EXCEEDED
from raftmeta.wire.commands cimport Bytes

cdef enum:
    WATCH_KINDS = 5             # of ZkRequest.watches


# --- who --------------------------------------------------------------------------------------------------------------
# Its session was counted for its address so far.
cdef status_t _move_session(ZkDoor* door, ZkConnection* connection, Account* before) noexcept nogil:
    cdef Account* account = connection.base.account
    cdef uint32_t most = door.desk.base.limits.quotas.leases_max
    cdef Holding* holding = door.desk.base.holdings.leases.find(connection.session)
    if holding == NULL or holding.account != before:
        return OK
    if load_shared(&account.leases) >= most:
        door.desk.base.counters.over_quota += 1
        return QUOTA_EXCEEDED
    holding_move(holding, account, &account.leases)
    return OK


cdef status_t quotas_attach(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef bint is_certified
    cdef Bytes name = access_principal(door, connection, &is_certified)
    cdef Account* before = connection.base.account
    cdef status_t status
    account_hold(before)        # its watches and its session are counted there until they have moved
    status = accounts_attach(&door.desk.base, &connection.base, name.data, name.length)
    if status == OK and connection.base.account != before:
        watch_list_count(&connection.watches, &connection.base.account.watches)
        if before != NULL:
            status = _move_session(door, connection, before)
    account_drop(before)
    return status


# --- requests ---------------------------------------------------------------------------------------------------------
cdef inline bint _is_urgent(int32_t opcode) noexcept nogil:
    return opcode in (ZK_PING, ZK_DELETE, ZK_CHECK_WATCHES, ZK_REMOVE_WATCHES, ZK_SET_WATCHES, ZK_SET_WATCHES2)


cdef int32_t quotas_request(ZkDoor* door, ZkConnection* connection, const ZkRequest* request,
                            uint32_t length) noexcept nogil:
    cdef uint64_t wait_ns = 0
    cdef bint is_write = request.error == ZK_OK and (request.row.traits & ZK_IS_WRITE) != 0
    if request.opcode in (ZK_AUTH, ZK_SASL, ZK_CLOSE_SESSION):
        return ZK_OK            # they say who is there, or give back
    if accounts_spend(&door.desk.base, &connection.base, length if is_write else 0, _is_urgent(request.opcode),
                      &wait_ns) == 0:
        return ZK_OK
    accounts_refused(&door.desk.base, &connection.base)
    return ZK_THROTTLED


cdef bint quotas_watch(ZkDoor* door, ZkConnection* connection, const ZkRequest* request) noexcept nogil:
    cdef uint32_t most = door.desk.base.limits.quotas.watches_max
    cdef uint64_t more = request.is_watching or request.opcode == ZK_ADD_WATCH
    cdef int i
    if most == 0:
        return True
    if request.opcode in (ZK_SET_WATCHES, ZK_SET_WATCHES2):
        for i in range(WATCH_KINDS):
            more += request.watches[i].count
    if more == 0 or load_shared(&connection.base.account.watches) + more <= most:
        return True
    accounts_refused(&door.desk.base, &connection.base)
    return False


# --- sessions ---------------------------------------------------------------------------------------------------------
cdef bint quotas_grant(ZkDoor* door, ZkConnection* connection, uint64_t ttl_ms) noexcept nogil:
    cdef Account* account = connection.base.account
    cdef uint32_t most = door.desk.base.limits.quotas.leases_max
    if most == 0:
        return True
    if load_shared(&account.leases) >= most:
        accounts_refused(&door.desk.base, &connection.base)
        return False
    if holding_begin(&door.desk.base.holdings.leases, connection.session, account, &account.leases, ttl_ms,
                     door.desk.base.now_ns):
        add_shared(&account.leases, <uint32_t>1)
    return True


cdef void quotas_session_ended(ZkDoor* door, uint64_t session) noexcept nogil:
    holding_end(&door.desk.base.holdings.leases, session)
