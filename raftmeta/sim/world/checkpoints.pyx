"""Checkpoints of simulated nodes: a base and differences, committed all at once or not at all.

A chunk is made per poll, so a crash may come between any two, and between the commit and the word of it. Now and then
a poll finds nothing new (its thread waits for the GIL), or the store fails and nothing has changed.
It decides when a step is done, by the disk's random stream. It must never keep half a checkpoint.
Sources: raftmeta/engine/snapshots/checkpoint.pxd; decisions/README.md "Checkpoints".
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.engine.snapshots.checkpoint cimport CheckpointHead
from raftmeta.machine.dump cimport (Dump, machine_dump_base_forget, machine_dump_base_loaded, machine_dump_keep,
                                    machine_dump_next, machine_dump_since)
from raftmeta.machine.state cimport Machine
from raftmeta.native.intrinsics cimport next_random
from raftmeta.sim.world.world_state cimport SimCheckpoint
from raftmeta.status cimport ALREADY, CORRUPT, NO_MEMORY, NO_SPACE, NOT_FOUND, NOT_READY, OK, status_t

cdef enum:
    DIFFERENCES_MAX = 4         # behind one base
    NO_CHUNK = 0xFFFFFFF        # damaged: none


# --- what is committed ------------------------------------------------------------------------------------------------
cdef void _forget_committed(SimCheckpoint* self) noexcept nogil:
    self.records.clear()
    self.chunks.clear()
    self.membership.clear()
    self.differences = 0
    self.damaged_chunk = NO_CHUNK
    memset(<void*>&self.head, 0, sizeof(CheckpointHead))


# One transaction: the dump's chunks, behind those of the base it builds on, and the manifest.
cdef status_t _commit(SimCheckpoint* self) noexcept nogil:
    cdef size_t i
    if not self.is_difference:
        _forget_committed(self)
    self.differences += self.is_difference
    self.membership.clear()
    for i in range(self.fresh_chunks.size):
        if not self.chunks.push(self.fresh_chunks.data[i]):
            return NO_MEMORY
    if not (self.records.append(self.fresh.data, self.fresh.size)
            and self.membership.append(self.fresh_membership.data, self.fresh_membership.size)):
        return NO_MEMORY
    self.head = self.fresh_head
    self.head.membership = self.membership.data
    self.head.membership_length = <uint32_t>self.membership.size
    return OK


# --- opening ----------------------------------------------------------------------------------------------------------
cdef status_t _open(void* port, CheckpointHead* head) noexcept nogil:
    cdef SimCheckpoint* self = &(<SimNode*>port).checkpoint
    if self.chunks.size == 0:
        return NOT_FOUND
    self.next_chunk = 0
    self.next_offset = 0
    head[0] = self.head
    return OK


cdef status_t _next(void* port, const uint8_t** records, uint32_t* length) noexcept nogil:
    cdef SimCheckpoint* self = &(<SimNode*>port).checkpoint
    if self.next_chunk == self.chunks.size:
        return NOT_FOUND
    if self.next_chunk == self.damaged_chunk:
        return CORRUPT
    records[0] = self.records.data + self.next_offset
    length[0] = self.chunks.data[self.next_chunk]
    self.next_offset += self.chunks.data[self.next_chunk]
    self.next_chunk += 1
    return OK


cdef status_t _forget(void* port) noexcept nogil:
    _forget_committed(&(<SimNode*>port).checkpoint)
    return OK


cdef void _begin_from(void* port, Machine* machine, bint is_kept) noexcept nogil:
    cdef SimCheckpoint* self = &(<SimNode*>port).checkpoint
    machine_dump_base_forget(self.machine, &self.base)
    self.machine = machine
    if is_kept:
        machine_dump_base_loaded(machine, &self.base)


# --- taking -----------------------------------------------------------------------------------------------------------
cdef status_t _take(void* port, const CheckpointHead* head, Machine* machine, Dump* dump) noexcept nogil:
    cdef SimCheckpoint* self = &(<SimNode*>port).checkpoint
    if self.dump != NULL:
        return ALREADY
    self.fresh.clear()
    self.fresh_chunks.clear()
    self.fresh_membership.clear()
    if not self.fresh_membership.append(head.membership, head.membership_length):
        return NO_MEMORY
    self.fresh_head = head[0]
    self.machine = machine
    self.dump = dump
    self.is_committed = False
    self.is_difference = self.base.root != NULL and self.differences < DIFFERENCES_MAX
    if self.is_difference:
        machine_dump_since(dump, &self.base)
    return OK


cdef status_t _fill(SimNode* node, SimCheckpoint* self) noexcept nogil:
    cdef size_t before = self.fresh.size
    cdef bint done = False
    cdef status_t status = machine_dump_next(self.machine, self.dump, node.world.config.snapshot_chunk_bytes,
                                             &self.fresh, &done)
    if status == OK and not self.fresh_chunks.push(<uint32_t>(self.fresh.size - before)):
        status = NO_MEMORY
    if status == OK and done:
        status = _commit(self)
        self.is_committed = True
    return status


cdef status_t _end(SimNode* node, SimCheckpoint* self, status_t status) noexcept nogil:
    if status == OK:
        machine_dump_keep(self.machine, self.dump, &self.base)
        node.world.counts.checkpoints += 1
    else:
        node.world.counts.checkpoints_failed += 1
    self.dump = NULL
    return status


cdef status_t _poll(void* port) noexcept nogil:
    cdef SimNode* node = <SimNode*>port
    cdef SimCheckpoint* self = &node.checkpoint
    cdef uint64_t draw = next_random(&node.world.random_disk)
    cdef status_t status
    if self.is_committed:
        return _end(node, self, OK)
    if draw % 8 == 0:
        return NOT_READY
    if node.world.faults_are_on and draw >> 8 & 0xFF == 0:
        return _end(node, self, NO_SPACE)
    status = _fill(node, self)
    return NOT_READY if status == OK else _end(node, self, status)


cdef void _tick(void* _port) noexcept nogil:
    pass            # simulated states are small, and what they pin too


# --- life -------------------------------------------------------------------------------------------------------------
cdef CheckpointPort checkpoint_port(SimNode* node) noexcept nogil:
    cdef CheckpointPort port
    port.self = node
    port.open = _open
    port.next = _next
    port.forget = _forget
    port.begin_from = _begin_from
    port.take = _take
    port.poll = _poll
    port.tick = _tick
    return port


cdef void checkpoint_let_go(SimNode* node) noexcept nogil:
    cdef SimCheckpoint* self = &node.checkpoint
    if self.machine != NULL:
        machine_dump_base_forget(self.machine, &self.base)
    self.machine = NULL
    self.dump = NULL


cdef void checkpoint_wipe(SimNode* node) noexcept nogil:
    cdef SimCheckpoint* self = &node.checkpoint
    self.records.release()
    self.chunks.release()
    self.membership.release()
    self.fresh.release()
    self.fresh_chunks.release()
    self.fresh_membership.release()
    memset(<void*>self, 0, sizeof(SimCheckpoint))
    self.damaged_chunk = NO_CHUNK


cdef bint checkpoint_damage(SimNode* node, uint32_t draw) noexcept nogil:
    cdef SimCheckpoint* self = &node.checkpoint
    if self.chunks.size == 0:
        return False
    self.damaged_chunk = draw % self.chunks.size
    return True
