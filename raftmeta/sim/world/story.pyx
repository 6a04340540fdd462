"""The story of a world: notes of what a reader of a diagram wants to see.

It decides which events are worth a line: messages of the protocol but no frames of snapshots or state checks, and
changes of a node's role, commit index and life. It must never change the world; a world with a story and one
without have the same history.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.native.chunks cimport Slice
from raftmeta.raft.types cimport Message
from raftmeta.sim.world.events cimport SIM_FRAME
from raftmeta.sim.world.world_state cimport (NOTE_COMMIT, NOTE_DOWN, NOTE_FAULT, NOTE_FRAME, NOTE_ROLE, NOTE_UP,
                                             VIOLATION_NO_MEMORY, SimFrame, SimNode, SimNote, SimNoteKind, SimSeen,
                                             violate)
from raftmeta.status cimport OK
from raftmeta.wire.frame cimport FRAME_HEADER_BYTES, FRAME_MESSAGE, FrameHeader
from raftmeta.wire.messages cimport message_decode

cdef enum:
    TUNE_NOTES_MAX = 20_000


cdef void _note(World* world, SimNoteKind what, uint32_t node, uint32_t other, uint64_t a, uint64_t b,
                uint64_t c) noexcept nogil:
    cdef SimNote note
    if not world.story_is_on:
        return
    note.time_ns = world.now_ns
    note.event = world.counts.events
    note.what = what
    note.node = node
    note.other = other
    note.a = a
    note.b = b
    note.c = c
    if world.story.size == TUNE_NOTES_MAX:
        world.story.pop_front()
    if not world.story.push(note):
        violate(world, VIOLATION_NO_MEMORY, node, 0, 0)


cdef void story_fault(World* world, uint32_t kind) noexcept nogil:
    _note(world, NOTE_FAULT, 0, 0, kind, 0, 0)


cdef void story_before(World* world, const SimEvent* event) noexcept nogil:
    cdef const SimFrame* frame = <const SimFrame*>event.data
    cdef const FrameHeader* header
    cdef Message message
    cdef Slice records
    if event.kind != SIM_FRAME or not world.nodes[event.node].is_up:
        return
    header = <const FrameHeader*>frame.chunk.bytes()
    memset(<void*>&message, 0, sizeof(Message))
    memset(<void*>&records, 0, sizeof(Slice))
    records.chunk = frame.chunk
    records.data = frame.chunk.bytes() + FRAME_HEADER_BYTES + header.body_length
    records.length = header.records_length
    if header.type != FRAME_MESSAGE or frame.chunk.used != FRAME_HEADER_BYTES + header.body_length + records.length:
        return
    if message_decode(frame.chunk.bytes() + FRAME_HEADER_BYTES, header.body_length, &records, &message) == OK:
        _note(world, NOTE_FRAME, frame.source, event.node, message.type | <uint64_t>message.reject << 8, message.term,
              message.index)


cdef void _look(World* world, SimNode* node, SimSeen* seen) noexcept nogil:
    if node.is_up != seen.is_up:
        _note(world, NOTE_UP if node.is_up else NOTE_DOWN, node.number, node.number, 0, 0, 0)
        memset(seen, 0, sizeof(SimSeen))
        seen.is_up = node.is_up
    if not node.is_up or node.engine == NULL or node.engine.state != ENGINE_RUNNING:
        return
    if node.engine.core_status.role != seen.role or node.engine.core_status.term != seen.term:
        seen.role = node.engine.core_status.role
        seen.term = node.engine.core_status.term
        _note(world, NOTE_ROLE, node.number, node.number, seen.role, seen.term, 0)
    if node.engine.core_status.committed != seen.committed:
        seen.committed = node.engine.core_status.committed
        _note(world, NOTE_COMMIT, node.number, node.number, seen.committed, seen.term, 0)


cdef void story_after(World* world) noexcept nogil:
    cdef uint32_t number
    for number in range(world.config.nodes):
        _look(world, &world.nodes[number], &world.seen[number])
