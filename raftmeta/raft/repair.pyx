"""Repair of damaged records; repair.pxd has the rules."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.native.chunks cimport Chunk, Slice, chunk_create
from raftmeta.native.marks cimport (MARK_MEMBERSHIP_REPAIRED, MARK_REPAIRED, MARK_REPAIR_BY_SNAPSHOT,
                                    MARK_REPAIR_GIVEN, MARK_REPAIR_OFFERED_ALREADY, MARK_REPAIR_REFUSED, mark)
from raftmeta.raft.log cimport Damage, log_record, log_repair
from raftmeta.raft.membership cimport membership_position
from raftmeta.raft.membership_change cimport membership_take
from raftmeta.raft.outbox cimport message_init, outbox_send, trace
from raftmeta.raft.progress cimport Progress
from raftmeta.raft.ready cimport TRACE_REPAIR, TRACE_SNAPSHOT_NEEDED, LogRead
from raftmeta.raft.record cimport RECORD_HEAD_BYTES, record_bytes, record_payload
from raftmeta.raft.state cimport Core, EntryWanted, in_force, out_of_memory
from raftmeta.raft.types cimport (ENTRY_MEMBERSHIP, ENTRY_REQUEST, ENTRY_RESPONSE, MEMBERS_MAX, Message, Record,
                                  index_t, member_id_t)
from raftmeta.status cimport NO_MEMORY, OK, STALE, status_t

cdef enum:
    TUNE_REPAIRS_ASKED = 16     # damaged records asked for at a time
    TUNE_ENTRIES_WANTED = 256   # requests of other members that wait for the log file


# --- the damaged member -----------------------------------------------------------------------------------------------
cdef void repair_tick(Core* core) noexcept nogil:
    cdef size_t i
    if core.log.damages.size == 0 or core.now < core.repair_tick:
        return
    core.repair_tick = core.now + core.config.heartbeat_ticks
    for i in range(min(core.log.damages.size, <size_t>TUNE_REPAIRS_ASKED)):
        _ask_all(core, &core.log.damages.data[i])


# Ask members and all connected peers. This member's membership may be out of date, and the chain hash proves an answer
# from anybody.
cdef void _ask_all(Core* core, const Damage* damage) noexcept nogil:
    cdef size_t i
    for i in range(in_force(core).count):
        if <int>i != core.position:
            _ask(core, damage, in_force(core).members[i].id)
    for i in range(core.connected.size):
        if membership_position(in_force(core), core.connected.data[i]) < 0:
            _ask(core, damage, core.connected.data[i])


cdef void _ask(Core* core, const Damage* damage, member_id_t target) noexcept nogil:
    cdef Message message
    message_init(core, &message, ENTRY_REQUEST, target)
    message.term = 0
    message.index = damage.index
    message.context = damage.chain
    outbox_send(core, &message)


cdef void repair_on_link(Core* core, member_id_t peer, bint is_up) noexcept nogil:
    cdef size_t i
    for i in range(core.connected.size):
        if core.connected.data[i] == peer:
            core.connected.data[i] = core.connected.back()
            core.connected.pop()
            break
    if is_up and core.connected.size < <size_t>MEMBERS_MAX and not core.connected.push(peer):
        out_of_memory(core)


cdef status_t repair_on_response(Core* core, const Message* message) noexcept nogil:
    if message.reject or message.records.length < RECORD_HEAD_BYTES:
        mark(MARK_REPAIR_REFUSED)
        return STALE
    return repair_take(core, &message.records, message.source)


cdef status_t repair_take(Core* core, const Slice* slice, member_id_t source) noexcept nogil:
    cdef index_t index = (<const Record*>slice.data).index
    cdef Record* record
    cdef status_t status = log_repair(&core.log, slice)
    if status != OK:
        if status == NO_MEMORY:
            out_of_memory(core)
        return status
    if not core.repaired.push(index):
        out_of_memory(core)
        return NO_MEMORY
    mark(MARK_REPAIRED)
    trace(core, TRACE_REPAIR, index, source)
    record = log_record(&core.log, index)
    if record.type == ENTRY_MEMBERSHIP:
        mark(MARK_MEMBERSHIP_REPAIRED)
        return membership_take(core, index, record_payload(record), record.length)
    return OK


# --- the member that is asked -----------------------------------------------------------------------------------------
cdef status_t repair_on_request(Core* core, const Message* message) noexcept nogil:
    cdef Record* record = log_record(&core.log, message.index)
    cdef Slice slice
    if record != NULL:
        slice.chunk = NULL
        slice.data = <uint8_t*>record
        slice.length = <uint32_t>record_bytes(record.length)
        return _answer(core, message.source, message.index, message.context, &slice)
    if message.index > core.log.compacted and message.index <= core.log.offset:
        return _read_log(core, message)
    if message.index <= core.log.compacted:
        mark(MARK_REPAIR_BY_SNAPSHOT)
        _offer_snapshot(core, message.source)
    return _answer(core, message.source, message.index, message.context, NULL)


# The entry is gone here, but our snapshot has it. A snapshot is committed state: it needs no leader to be right.
cdef void _offer_snapshot(Core* core, member_id_t member) noexcept nogil:
    cdef int position = membership_position(in_force(core), member)
    cdef Progress* progress
    if position < 0:
        return
    progress = &core.progress[position]
    if progress.was_offered and core.now - progress.offered_tick < core.config.election_timeout_ticks:
        mark(MARK_REPAIR_OFFERED_ALREADY)
        return                      # the member asks at every heartbeat; one stream at a time is enough
    progress.was_offered = True
    progress.offered_tick = core.now
    trace(core, TRACE_SNAPSHOT_NEEDED, member, core.log.snapshotted)
    if not core.snapshots.push(member):
        out_of_memory(core)


cdef status_t _read_log(Core* core, const Message* message) noexcept nogil:
    cdef EntryWanted wanted
    cdef LogRead read
    if core.entries_wanted.size >= TUNE_ENTRIES_WANTED:
        return STALE                # the member asks again
    wanted.source = message.source
    wanted.index = message.index
    wanted.chain = message.context
    read.peer = message.source
    read.first = message.index
    read.bytes_max = 1              # at least one record comes, and one is wanted
    if not (core.entries_wanted.push(wanted) and core.log_reads.push(read)):
        out_of_memory(core)
        return NO_MEMORY
    return OK


cdef status_t repair_on_log_read(Core* core, const LogRead* read, const Slice* records, status_t status) noexcept nogil:
    cdef EntryWanted wanted
    cdef size_t i
    for i in range(core.entries_wanted.size):
        wanted = core.entries_wanted.data[i]
        if wanted.source == read.peer and wanted.index == read.first and read.bytes_max == 1:
            core.entries_wanted.data[i] = core.entries_wanted.back()
            core.entries_wanted.pop()
            return _answer(core, wanted.source, wanted.index, wanted.chain, records if status == OK else NULL)
    return STALE


# Give the first record of `slice` if it is the one asked for; NULL: we do not have it.
cdef status_t _answer(Core* core, member_id_t target, index_t index, uint64_t chain, const Slice* slice) noexcept nogil:
    cdef Message response
    cdef const Record* record
    message_init(core, &response, ENTRY_RESPONSE, target)
    response.term = 0
    response.index = index
    response.context = chain
    response.reject = True
    if slice != NULL:
        record = <const Record*>slice.data
        if record.index == index and record.chain == chain and _copy_record(core, record, &response.records):
            mark(MARK_REPAIR_GIVEN)
            response.reject = False
            response.count = 1
    outbox_send(core, &response)
    return OK


# The record gets a chunk of its own: repairs are rare, and one record should not keep the log's chunk.
cdef bint _copy_record(Core* core, const Record* record, Slice* slice) noexcept nogil:
    cdef Chunk* chunk = chunk_create(<uint32_t>record_bytes(record.length))
    if chunk == NULL:
        out_of_memory(core)
        return False
    chunk.used = chunk.capacity
    memcpy(chunk.bytes(), record, chunk.used)
    slice.chunk = chunk
    slice.data = chunk.bytes()
    slice.length = chunk.used
    return True
