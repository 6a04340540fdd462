"""The quota of leases at the Kafka door: bodies. A member is counted by a hash of its id, which the log made up."""

from libc.stdint cimport uint32_t, uint64_t

from raftmeta.connections.accounts cimport accounts_refused, holding_begin, holding_end, holding_renew
from raftmeta.connections.accounts_state cimport Account
from raftmeta.native.atomics cimport add_shared, load_shared
from raftmeta.native.intrinsics cimport hash64


cdef inline uint64_t _number(const Bytes* member) noexcept nogil:
    return hash64(0, member.data, member.length)


cdef bint quotas_have_room(KafkaDoor* door, KafkaConnection* connection) noexcept nogil:
    cdef uint32_t most = door.desk.base.limits.quotas.leases_max
    if most == 0 or load_shared(&connection.base.account.leases) < most:
        return True
    accounts_refused(&door.desk.base, &connection.base)
    return False


cdef void quotas_joined(KafkaDoor* door, KafkaConnection* connection, const Bytes* member,
                        uint64_t ttl_ms) noexcept nogil:
    cdef Account* account = connection.base.account
    if door.desk.base.limits.quotas.leases_max != 0 and holding_begin(
            &door.desk.base.holdings.leases, _number(member), account, &account.leases, ttl_ms,
            door.desk.base.now_ns):
        add_shared(&account.leases, <uint32_t>1)


cdef void quotas_heard(KafkaDoor* door, const Bytes* member) noexcept nogil:
    if door.desk.base.limits.quotas.leases_max != 0:
        holding_renew(&door.desk.base.holdings.leases, _number(member), door.desk.base.now_ns)


cdef void quotas_left(KafkaDoor* door, const Bytes* member) noexcept nogil:
    if door.desk.base.limits.quotas.leases_max != 0:
        holding_end(&door.desk.base.holdings.leases, _number(member))
