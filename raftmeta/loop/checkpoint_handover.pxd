# The hand-over of checkpoints from a node's native threads to a Python thread, which alone touches LMDB.
#
# One request at a time. The native side fills the fields, sets `request` and rings. From then on the fields are the
# thread's, until it sets `request` back to REQUEST_NONE. The opening thread waits for its requests. The loop does not
# wait
# for TAKE: it polls, because a host that holds the GIL may keep the thread from running. That delays the truncation of
# the log and nothing else.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.engine.snapshots.checkpoint cimport CheckpointHead, CheckpointPort
from raftmeta.machine.dump cimport Dump, DumpBase
from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t

cdef enum HandoverRequest:
    REQUEST_NONE = 0
    REQUEST_OPEN = 1            # -> head, membership
    REQUEST_NEXT = 2            # -> read
    REQUEST_FORGET = 3
    REQUEST_TAKE = 4            # head, membership, machine, dump ->

cdef struct Handover:
    uint32_t request            # shared: HandoverRequest
    uint32_t bell               # shared: rung with every request
    uint32_t answered           # shared: rung with every answer
    uint32_t is_closing         # shared
    status_t result             # of the last request
    CheckpointHead head
    Vec[uint8_t] membership     # head.membership points here
    Vec[uint8_t] records        # the chunk being filled
    const uint8_t* read         # of REQUEST_NEXT: the thread's, until it takes the next request
    uint32_t read_length
    Machine* machine            # whose state is dumped
    Dump* dump
    DumpBase base               # the last checkpoint, pinned; its root is NULL: the next one must be a whole one

cdef Handover* handover_create() noexcept nogil             # NULL: no memory
# The thread has ended and no more calls come: what is pinned is let go, before the machine is destroyed.
cdef void handover_let_go(Handover* handover) noexcept nogil
cdef void handover_destroy(Handover* handover) noexcept nogil
cdef CheckpointPort handover_port(Handover* handover) noexcept nogil

# --- the thread -------------------------------------------------------------------------------------------------------
# Waits at most timeout_ns; REQUEST_NONE: nothing came.
cdef uint32_t handover_wait(Handover* handover, uint64_t timeout_ns) noexcept nogil
# REQUEST_TAKE: the next chunk, about bytes_max bytes of `count` records; only what changed since the base if
# machine_dump_since was called before. NODE_CLOSED: stop.
cdef status_t handover_fill(Handover* handover, uint32_t bytes_max, uint64_t* count, bint* done) noexcept nogil
# Sleeps so long, or until it is closing.
cdef void handover_pause(Handover* handover, uint64_t pause_ns) noexcept nogil
cdef void handover_answer(Handover* handover, status_t result) noexcept nogil
# Any thread: what is under way ends at the next chunk, and nothing is waited for any more.
cdef void handover_close(Handover* handover) noexcept nogil
