# A worker group as the keys of one machine show it, and how groups and members are named.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.machine.state cimport Machine
from raftmeta.sim.world.groups_state cimport SimGroupView, SimMember, SimMemberId
from raftmeta.wire.commands cimport Bytes

cdef Bytes group_key(uint32_t group) noexcept nogil
# Of this key, or of the key of a member: *id. SIM_GROUP_KEYS: it is no key of either.
cdef uint32_t group_of_key(const Bytes* key, Bytes* id) noexcept nogil
# By the state that the machine has published.
cdef void group_look(Machine* machine, uint32_t group, SimGroupView* view) noexcept nogil
# The deadlines of its leases, which no key shows.
cdef void group_deadlines(Machine* machine, SimGroupView* view) noexcept nogil
cdef SimMember* view_member(SimGroupView* view, const Bytes* id) noexcept nogil
cdef SimMember* view_holder(SimGroupView* view, uint8_t instance) noexcept nogil
cdef Bytes id_bytes(const SimMemberId* id) noexcept nogil
cdef void id_keep(SimMemberId* id, const Bytes* bytes) noexcept nogil
cdef bint id_is(const SimMemberId* id, const Bytes* bytes) noexcept nogil
# Resources that the bytes of an assignment name, as a set of bits.
cdef uint32_t resources_of(const Bytes* assignment) noexcept nogil
# The last byte, which tells instances apart; 0: empty.
cdef uint8_t instance_of(const Bytes* instance) noexcept nogil
