"""The quota of leases at the Kafka door: bodies. A member is counted by a hash of its id, which the log made up."""

from libc.stdint cimport uint32_t, uint64_t

from raftmeta.connections.accounts cimport accounts_refused, holding_begin, holding_end, holding_renew
from raftmeta.connections.accounts_state cimport Account
from raftmeta.native.intrinsics cimport hash64


cdef inline uint64_t _number(const Bytes* member) noexcept nogil:
    return hash64(0, member.data, member.length)


cdef bint quotas_have_room(KafkaDoor* door, KafkaConnection* connection) noexcept nogil:
    cdef uint32_t most = door.desk.base.limits.quotas.leases_max
    if most == 0 or connection.base.account.leases < most:
        return True
    accounts_refused(&door.desk.base, &connection.base)
    return False


cdef void quotas_joined(KafkaDoor* door, KafkaConnection* connection, const Bytes* member,
                        uint64_t ttl_ms) noexcept nogil:
    cdef Account* account = connection.base.account
    if door.desk.base.limits.quotas.leases_max != 0 and holding_begin(
            &door.desk.base.accounts.leases, _number(member), account, ttl_ms, door.desk.base.now_ns):
        account.leases += 1


cdef void quotas_heard(KafkaDoor* door, const Bytes* member) noexcept nogil:
    if door.desk.base.limits.quotas.leases_max != 0:
        holding_renew(&door.desk.base.accounts.leases, _number(member), door.desk.base.now_ns)


cdef void quotas_left(KafkaDoor* door, const Bytes* member) noexcept nogil:
    cdef Account* account = NULL
    if door.desk.base.limits.quotas.leases_max != 0:
        account = holding_end(&door.desk.base.accounts.leases, _number(member))
    if account != NULL:
        account.leases -= 1
