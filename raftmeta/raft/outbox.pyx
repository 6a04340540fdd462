"""Messages out, held until the disk has what they claim; outbox.pxd has the rule."""
from libc.stdint cimport uint64_t
from libc.string cimport memset

from raftmeta.native.chunks cimport chunk_drop
from raftmeta.native.marks cimport MARK_ACKNOWLEDGEMENTS_MERGED, MARK_MESSAGE_HELD, mark
from raftmeta.raft.ready cimport ReadReady, Trace, TraceType
from raftmeta.raft.state cimport Core, HeldMessage, is_repairing, out_of_memory
from raftmeta.raft.types cimport (APPEND_RESPONSE, MESSAGE_REPAIRING, PRE_VOTE, PRE_VOTE_RESPONSE, READ_INDEX_RESPONSE,
                                  Message, MessageType, index_t, member_id_t)
from raftmeta.status cimport OK, status_t


cdef void message_init(Core* core, Message* message, MessageType type, member_id_t target) noexcept nogil:
    memset(message, 0, sizeof(Message))
    message.type = type
    message.source = core.config.id
    message.target = target
    message.term = core.hard.term


cdef void response_init(Core* core, Message* message, MessageType type, member_id_t target) noexcept nogil:
    message_init(core, message, type, target)
    message.free_bytes = core.free_bytes
    if is_repairing(core):
        message.flags |= MESSAGE_REPAIRING


cdef bint is_hard_state_durable(Core* core) noexcept nogil:
    return _hard_state_write(core) == 0


# The write that carries term and vote: the next one or the one under way; 0: they are durable.
cdef uint64_t _hard_state_write(Core* core) noexcept nogil:
    if core.is_hard_dirty:
        return core.write_id_last + 1
    return core.write.id if core.write.id != 0 and core.write.has_hard_state else 0


# The write that carries the record at index; 0: it is durable.
cdef uint64_t _record_write(Core* core, index_t index) noexcept nogil:
    if index <= core.log.persisted:
        return 0
    # The write under way carries a record only as far as later records did not supersede it (see replication.pyx).
    if core.write.id != 0 and not core.write.repairs and core.write.first <= index <= core.write_last:
        return core.write.id
    return core.write_id_last + 1


cdef uint64_t _awaited_write(Core* core, const Message* message) noexcept nogil:
    cdef uint64_t records = 0
    if message.term == 0 or message.type == PRE_VOTE:
        return 0
    if message.type == PRE_VOTE_RESPONSE and not message.reject:
        return 0
    if message.type == APPEND_RESPONSE and not message.reject:
        records = _record_write(core, message.index)
    return max(records, _hard_state_write(core))


cdef void outbox_send(Core* core, const Message* message) noexcept nogil:
    cdef HeldMessage held
    held.write_id = _awaited_write(core, message)
    if held.write_id == 0:
        _push(core, message)
        return
    if _merge_acknowledgement(core, message, held.write_id):
        return
    mark(MARK_MESSAGE_HELD)
    held.message = message[0]
    if not core.held.push(held):
        chunk_drop(message.records.chunk)
        out_of_memory(core)


cdef void _push(Core* core, const Message* message) noexcept nogil:
    if not core.outbox.push(message[0]):
        chunk_drop(message.records.chunk)
        out_of_memory(core)


# Of the acknowledgements that wait for one write, keep only the highest: it says all that the others say.
cdef bint _merge_acknowledgement(Core* core, const Message* message, uint64_t write_id) noexcept nogil:
    cdef HeldMessage* last
    if message.type != APPEND_RESPONSE or message.reject or core.held.size == 0:
        return False
    last = &core.held.back()
    if last.write_id != write_id or last.message.type != APPEND_RESPONSE or last.message.reject:
        return False
    if last.message.target != message.target or last.message.term != message.term:
        return False
    if message.index > last.message.index:
        mark(MARK_ACKNOWLEDGEMENTS_MERGED)
        last.message.index = message.index
    last.message.flags |= message.flags
    return True


cdef void outbox_on_persisted(Core* core, uint64_t write_id) noexcept nogil:
    cdef size_t i, kept = 0
    for i in range(core.held.size):
        if core.held.data[i].write_id <= write_id:
            _push(core, &core.held.data[i].message)
        else:
            core.held.data[kept] = core.held.data[i]
            kept += 1
    core.held.size = kept


cdef void outbox_drop_held(Core* core) noexcept nogil:
    cdef size_t i
    for i in range(core.held.size):
        chunk_drop(core.held.data[i].message.records.chunk)
    core.held.clear()


cdef void outbox_drop_sent(Core* core) noexcept nogil:
    cdef size_t i
    for i in range(core.sent.size):
        chunk_drop(core.sent.data[i].records.chunk)
    core.sent.clear()


cdef void trace(Core* core, TraceType type, uint64_t a, uint64_t b) noexcept nogil:
    cdef Trace item
    item.type = type
    item.term = core.hard.term
    item.a = a
    item.b = b
    if not core.traces.push(item):
        out_of_memory(core)


cdef void answer_read(Core* core, member_id_t source, uint64_t context, uint64_t index, status_t status) noexcept nogil:
    cdef Message message
    cdef ReadReady ready
    if source == 0:
        ready.context = context
        ready.index = index
        ready.status = status
        if not core.reads_ready.push(ready):
            out_of_memory(core)
        return
    message_init(core, &message, READ_INDEX_RESPONSE, source)
    message.context = context
    message.index = index
    message.reject = status != OK
    outbox_send(core, &message)
