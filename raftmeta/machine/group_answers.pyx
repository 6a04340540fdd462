"""Answers to joins and syncs: bodies."""
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.machine.group_keys cimport Group, next_generation, no_bytes
from raftmeta.machine.group_records cimport GROUP_STABLE, MemberView
from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport NO_MEMORY, OK, status_t
from raftmeta.wire.commands cimport result_array, result_bool, result_bytes, result_unsigned
from raftmeta.wire.windows cimport Bytes


cdef status_t group_answer_join(Machine* machine, const Group* group, uint32_t what, const Bytes* id,
                                bint skips) noexcept nogil:
    cdef Vec[uint8_t]* body = &machine.transaction.body
    cdef Bytes nothing = no_bytes()
    cdef bint is_done = what == ANSWER_DONE
    if (result_array(body, 6) != OK or result_unsigned(body, what) != OK or result_bytes(body, id) != OK
            or result_unsigned(body, group.record.meta.generation if is_done else next_generation(group)) != OK
            or result_bytes(body, &group.record.leader if is_done else &nothing) != OK
            or result_bytes(body, &group.record.protocol if is_done else &nothing) != OK
            or result_bool(body, skips) != OK):
        return NO_MEMORY
    return OK

cdef status_t group_answer_sync(Machine* machine, const Group* group, const MemberView* me) noexcept nogil:
    cdef Vec[uint8_t]* body = &machine.transaction.body
    cdef bint is_done = group.record.meta.state == GROUP_STABLE
    cdef Bytes assignment = me.record.assignment
    if not is_done or me.record.meta.assigned != group.record.meta.generation:
        assignment = no_bytes()
    if (result_array(body, 3) != OK or result_unsigned(body, ANSWER_DONE if is_done else ANSWER_WAITS) != OK
            or result_unsigned(body, group.record.meta.generation) != OK or result_bytes(body, &assignment) != OK):
        return NO_MEMORY
    return OK
