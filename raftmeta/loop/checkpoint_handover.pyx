"""The hand-over of checkpoints: bodies.

It decides who owns the fields. It must never block the loop, touch a Python object, or let a caller wait
for a thread that is gone: after handover_close every request is answered NODE_CLOSED.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from raftmeta.machine.dump cimport (DumpHead, machine_dump_base_forget, machine_dump_base_is_outgrown,
                                    machine_dump_base_loaded, machine_dump_next)
from raftmeta.native.atomics cimport add_shared, load_shared, store_shared
from raftmeta.native.threads cimport futex_wait, futex_wake
from raftmeta.status cimport ALREADY, NODE_CLOSED, NOT_READY, NO_MEMORY, OK

cdef enum:
    LOOK_AGAIN_NS = 1_000_000_000   # the bell always rings; a waiter that missed nothing looks again all the same


cdef Handover* handover_create() noexcept nogil:
    return <Handover*>calloc(1, sizeof(Handover))


cdef void handover_let_go(Handover* handover) noexcept nogil:
    machine_dump_base_forget(handover.machine, &handover.base)


cdef void handover_destroy(Handover* handover) noexcept nogil:
    handover.membership.release()
    handover.records.release()
    free(handover)


cdef CheckpointPort handover_port(Handover* handover) noexcept nogil:
    cdef CheckpointPort port
    port.self = handover
    port.open = _open
    port.next = _next
    port.forget = _forget
    port.begin_from = _begin_from
    port.take = _take
    port.poll = _poll
    port.tick = _tick
    return port


# --- what the engine calls --------------------------------------------------------------------------------------------
cdef void _ask(Handover* handover, uint32_t request) noexcept nogil:
    store_shared(&handover.request, request)
    add_shared(&handover.bell, <uint32_t>1)
    futex_wake(&handover.bell, 1)


cdef status_t _ask_and_wait(Handover* handover, uint32_t request) noexcept nogil:
    cdef uint32_t seen
    _ask(handover, request)
    while True:
        seen = load_shared(&handover.answered)
        if load_shared(&handover.request) == REQUEST_NONE:
            return handover.result
        if load_shared(&handover.is_closing):
            return NODE_CLOSED
        futex_wait(&handover.answered, seen, LOOK_AGAIN_NS)


cdef status_t _open(void* self, CheckpointHead* head) noexcept nogil:
    cdef Handover* handover = <Handover*>self
    cdef status_t status = _ask_and_wait(handover, REQUEST_OPEN)
    if status == OK:
        head[0] = handover.head
    return status


cdef status_t _next(void* self, const uint8_t** records, uint32_t* length) noexcept nogil:
    cdef Handover* handover = <Handover*>self
    cdef status_t status = _ask_and_wait(handover, REQUEST_NEXT)
    records[0] = handover.read
    length[0] = handover.read_length
    return status


cdef status_t _forget(void* self) noexcept nogil:
    return _ask_and_wait(<Handover*>self, REQUEST_FORGET)


cdef void _begin_from(void* self, Machine* machine, bint is_kept) noexcept nogil:
    cdef Handover* handover = <Handover*>self
    machine_dump_base_forget(handover.machine, &handover.base)
    handover.machine = machine
    if is_kept:
        machine_dump_base_loaded(machine, &handover.base)


cdef status_t _take(void* self, const CheckpointHead* head, Machine* machine, Dump* dump) noexcept nogil:
    cdef Handover* handover = <Handover*>self
    if load_shared(&handover.request) != REQUEST_NONE:
        return ALREADY
    if load_shared(&handover.is_closing):
        return NODE_CLOSED
    handover.membership.clear()
    if not handover.membership.append(head.membership, head.membership_length):
        return NO_MEMORY
    handover.head = head[0]
    handover.head.membership = handover.membership.data
    handover.machine = machine
    handover.dump = dump
    _ask(handover, REQUEST_TAKE)
    return OK


cdef status_t _poll(void* self) noexcept nogil:
    cdef Handover* handover = <Handover*>self
    return NOT_READY if load_shared(&handover.request) != REQUEST_NONE else handover.result


cdef void _tick(void* self) noexcept nogil:
    cdef Handover* handover = <Handover*>self
    if load_shared(&handover.request) == REQUEST_NONE and machine_dump_base_is_outgrown(&handover.base):
        machine_dump_base_forget(handover.machine, &handover.base)


# --- what the thread calls --------------------------------------------------------------------------------------------
cdef uint32_t handover_wait(Handover* handover, uint64_t timeout_ns) noexcept nogil:
    cdef uint32_t seen = load_shared(&handover.bell)
    if load_shared(&handover.request) == REQUEST_NONE and not load_shared(&handover.is_closing):
        futex_wait(&handover.bell, seen, timeout_ns)
    return load_shared(&handover.request)


cdef status_t handover_fill(Handover* handover, uint32_t bytes_max, uint64_t* count, bint* done) noexcept nogil:
    cdef size_t position = 0
    cdef status_t status
    if load_shared(&handover.is_closing):
        return NODE_CLOSED
    handover.records.clear()
    status = machine_dump_next(handover.machine, handover.dump, bytes_max, &handover.records, done)
    count[0] = 0
    while position < handover.records.size:
        position += sizeof(DumpHead) + (<const DumpHead*>(handover.records.data + position)).length
        count[0] += 1
    return status


cdef void handover_pause(Handover* handover, uint64_t pause_ns) noexcept nogil:
    cdef uint32_t seen = load_shared(&handover.bell)    # while a request is under way it rings for the end alone
    if not load_shared(&handover.is_closing):
        futex_wait(&handover.bell, seen, pause_ns)


cdef void handover_answer(Handover* handover, status_t result) noexcept nogil:
    handover.result = result
    store_shared(&handover.request, <uint32_t>REQUEST_NONE)
    add_shared(&handover.answered, <uint32_t>1)
    futex_wake(&handover.answered, 1)


cdef void handover_close(Handover* handover) noexcept nogil:
    store_shared(&handover.is_closing, <uint32_t>1)
    add_shared(&handover.bell, <uint32_t>1)
    futex_wake(&handover.bell, 1)
    add_shared(&handover.answered, <uint32_t>1)
    futex_wake(&handover.answered, 1)
