"""The dump: bodies.

These parts stay still under a dump while apply goes on: the pinned root with all versions that it can see, also behind
links that trimming cuts meanwhile (entry_at_pinned), and the change records of that time, which are kept when they
fall below the floor (history_keep). New change records go behind those of the dump, in blocks that never move, so
the list of blocks is all that must be copied. Chunks of user machines are held. So a dump that takes long costs the
memory of the moment it began, and nothing of what is written meanwhile. Leases and sessions do not stay still: they
are encoded in slices before anything else is applied, in the order of their heaps, and sorted by whoever calls next
first.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memcpy, memset

from raftmeta.machine.history cimport HISTORY_BLOCK_STEPS, HistoryBlock, Step, history_keep, step_changes
from raftmeta.machine.invariants cimport BROKEN_DUMP_MOVED
from raftmeta.machine.leases cimport Lease
from raftmeta.machine.plan cimport is_live
from raftmeta.machine.processes cimport Process, processes_of_lease, processes_of_session
from raftmeta.machine.publish cimport MachineStatus, machine_publish, machine_status
from raftmeta.machine.rights cimport (RIGHTS_ITEM_TOKEN, RightsItem, rights_item, rights_items, rights_lease_owner,
                                      rights_session_owner)
from raftmeta.machine.sessions cimport Kept, Session, kept_body, session_lookup
from raftmeta.machine.state cimport PHASE_IDLE
from raftmeta.machine.tree cimport (ENTRY_TOMBSTONE, Cursor, Difference, Entry, cursor_next, cursor_seek,
                                    entry_at_pinned, entry_key, entry_value, root_count, root_difference, tree_pin,
                                    tree_pinned, tree_unpin)
from raftmeta.machine.user_machines cimport UserCommand, UserDump, UserMachine, user_command_bytes
from raftmeta.native.atomics cimport add_shared, subtract_shared
from raftmeta.native.chunks cimport Chunk, Slice, chunk_drop, chunk_hold
from raftmeta.native.intrinsics cimport hash64
from raftmeta.native.invariants cimport broken
from raftmeta.status cimport NOT_READY, NO_MEMORY, OK
from raftmeta.wire.commands cimport KEY_BYTES_MAX

cdef enum:
    TUNE_PASSED_KEY_BYTES = 64      # what looking at a key that is not in the dump counts of a chunk
    TUNE_DIFFERENCES = 256          # changed keys looked for at once

cdef enum DumpStage:
    STAGE_ENDED = 1                 # these three are prepared by the thread that applies
    STAGE_LEASES = 2
    STAGE_SESSIONS = 3
    STAGE_HEAD = 4                  # what was prepared
    STAGE_KEYS = 5
    STAGE_HISTORY = 6
    STAGE_USERS = 7
    STAGE_RIGHTS = 8                # what was prepared of them
    STAGE_END = 9
    STAGE_DONE = 10

# A lease, a session with its results, or a part of the rights, in the bytes of the head.
cdef struct DumpSpan:
    uint32_t kind                   # DumpRecord; DUMP_STATE: the state and all ended sessions
    uint64_t id
    size_t offset
    size_t length

cdef struct DumpCursor:
    DumpStage stage
    uint64_t hash                   # of the records given so far
    uint64_t applied
    size_t prepared                 # ended sessions, leases or sessions of the stage that are in the head
    uint64_t next_sequence          # of the session under way; 0: its own record is next
    Vec[uint8_t] head
    Vec[DumpSpan] spans
    bint is_sorted
    size_t spans_given
    size_t head_given               # of the span under way
    const Root* root
    Cursor keys
    uint64_t floor
    uint64_t revision               # of the state
    uint64_t next_revision
    uint32_t next_change            # 0: its DUMP_REVISION is next too
    uint64_t first_block
    Vec[HistoryBlock*] blocks
    Vec[UserBytes] users            # in the order in which they are given
    size_t users_given
    size_t users_offset             # in the bytes of the next one
    # Of a difference; NULL: everything.
    const Root* since
    uint64_t since_revision
    Vec[Difference] changed         # keys found, [next_changed, size) not given yet
    size_t next_changed
    bint has_more                   # keys beyond those, from `from_key` on
    uint16_t from_length
    uint8_t[KEY_BYTES_MAX + 1] from_key

# Bytes of a user machine: a record DUMP_MACHINE (made at begin), a part, or commands of the tail.
cdef struct UserBytes:
    uint32_t kind                   # of the records they become
    uint64_t is_staged
    DumpMachine machine
    Slice bytes                     # its chunk is held; DUMP_MACHINE: the name, borrowed


# --- begin and end ----------------------------------------------------------------------------------------------------
cdef status_t machine_dump_begin(Machine* machine, Dump* dump) noexcept nogil:
    cdef status_t status
    dump.cursor = NULL
    if machine.phase != PHASE_IDLE:
        return NOT_READY
    # The root to be pinned must hold all that is applied.
    status = machine_publish(machine)
    if status != OK:
        return status
    cdef DumpCursor* cursor = <DumpCursor*>calloc(1, sizeof(DumpCursor))
    if cursor == NULL:
        return NO_MEMORY
    if not (_begin_span(cursor, DUMP_STATE, 0) and _encode_state(machine, &cursor.head)
            and _copy_blocks(machine, cursor) and _list_users(machine, cursor)):
        _free(cursor)
        return NO_MEMORY
    add_shared(&machine.dumps, <uint64_t>1)
    history_keep(&machine.history)
    cursor.root = tree_pin(machine.tree)
    cursor.stage = STAGE_ENDED
    cursor.applied = machine.applied
    cursor.floor = machine.compacted
    cursor.revision = machine.revision
    cursor.next_revision = machine.compacted + 1
    # Nothing existed before revision 1: without a floor there are no keys at it to look for.
    if cursor.floor > 0:
        cursor_seek(&cursor.keys, cursor.root, NULL, 0)
    dump.cursor = cursor
    return OK

# Changes that the history tells are not told again by keys: those matter only when the floor has passed the base.
cdef void machine_dump_since(Dump* dump, const DumpBase* base) noexcept nogil:
    cdef DumpCursor* cursor = <DumpCursor*>dump.cursor
    cursor.since = base.root
    cursor.since_revision = base.revision
    cursor.hash = base.hash
    cursor.has_more = cursor.floor > base.revision
    cursor.next_revision = max(cursor.floor, base.revision) + 1

cdef void machine_dump_end(Machine* machine, Dump* dump) noexcept nogil:
    cdef DumpCursor* cursor = <DumpCursor*>dump.cursor
    if cursor == NULL:
        return
    if cursor.root != NULL:
        tree_unpin(machine.tree, cursor.root)
    subtract_shared(&machine.dumps, <uint64_t>1)
    _free(cursor)
    dump.cursor = NULL

cdef void machine_dump_keep(Machine* machine, Dump* dump, DumpBase* base) noexcept nogil:
    cdef DumpCursor* cursor = <DumpCursor*>dump.cursor
    machine_dump_base_forget(machine, base)
    base.root = cursor.root
    base.revision = cursor.revision
    base.hash = cursor.hash
    cursor.root = NULL

cdef void machine_dump_base_loaded(Machine* machine, DumpBase* base) noexcept nogil:
    base.root = tree_pin(machine.tree)
    base.revision = machine.revision
    base.hash = machine.load.hash

cdef void machine_dump_base_forget(Machine* machine, DumpBase* base) noexcept nogil:
    if base.root != NULL:
        tree_unpin(machine.tree, base.root)
    base.root = NULL

cdef bint machine_dump_base_is_outgrown(const DumpBase* base) noexcept nogil:
    cdef uint64_t most
    if base.root == NULL:
        return False
    most = max(<uint64_t>TUNE_OUTGROWN_OBJECTS, root_count(base.root) // TUNE_OUTGROWN_SHARE)
    return tree_pinned(base.root) > most

cdef void _free(DumpCursor* cursor) noexcept nogil:
    cdef size_t i
    cursor.head.release()
    cursor.spans.release()
    cursor.blocks.release()
    cursor.changed.release()
    for i in range(cursor.users.size):
        chunk_drop(cursor.users.data[i].bytes.chunk)
    cursor.users.release()
    free(cursor)

cdef bint _copy_blocks(Machine* machine, DumpCursor* cursor) noexcept nogil:
    cdef size_t i
    cursor.first_block = machine.history.first_block
    for i in range(machine.history.blocks.size):
        if not cursor.blocks.push(machine.history.blocks.at(i)):
            return False
    return True

cdef bint _list_users(Machine* machine, DumpCursor* cursor) noexcept nogil:
    cdef size_t i
    for i in range(machine.users.machines.size):
        if not _list_user(machine.users.machines.data[i], cursor):
            return False
    return True

cdef bint _list_user(UserMachine* user, DumpCursor* cursor) noexcept nogil:
    cdef UserBytes item
    cdef size_t i
    memset(&item, 0, sizeof(UserBytes))
    item.kind = DUMP_MACHINE
    item.machine.point = user.point
    item.machine.point_bytes = user.point_bytes
    item.machine.dump_index = user.dump.index
    item.machine.dump_digest = user.dump.digest
    item.machine.dump_total = user.dump.total
    item.machine.staged_index = user.staged.index
    item.machine.staged_digest = user.staged.digest
    item.machine.staged_total = user.staged.total
    item.bytes.data = user.name
    item.bytes.length = user.name_length
    if not cursor.users.push(item) or not _list_parts(&user.dump, 0, cursor):
        return False
    if not _list_parts(&user.staged, 1, cursor):
        return False
    item.kind = DUMP_COMMAND
    for i in range(user.tail.size):
        if not _list_bytes(&item, user.tail.at(i).chunk, user.tail_start if i == 0 else 0, cursor):
            return False
    return True

# From `start` to what the chunk has now.
cdef bint _list_bytes(UserBytes* item, Chunk* chunk, uint32_t start, DumpCursor* cursor) noexcept nogil:
    item.bytes.chunk = chunk
    item.bytes.data = chunk.bytes() + start
    item.bytes.length = chunk.used - start
    if not cursor.users.push(item[0]):
        return False
    chunk_hold(chunk)
    return True

cdef bint _list_parts(UserDump* dump, uint64_t is_staged, DumpCursor* cursor) noexcept nogil:
    cdef UserBytes item
    cdef size_t i
    memset(&item, 0, sizeof(UserBytes))
    item.kind = DUMP_PART
    item.is_staged = is_staged
    for i in range(dump.parts.size):
        if not _list_bytes(&item, dump.parts.data[i], 0, cursor):
            return False
    return True


# --- what is prepared -------------------------------------------------------------------------------------------------
# A record of a struct and up to two texts behind it.
cdef bint _append(Vec[uint8_t]* out, uint32_t kind, const void* fields, size_t fields_length, const uint8_t* bytes,
                  size_t length, const uint8_t* more_bytes, size_t more_length) noexcept nogil:
    cdef DumpHead head
    head.kind = kind
    head.length = <uint32_t>(fields_length + length + more_length)
    if not out.reserve(out.size + sizeof(DumpHead) + head.length):
        return False
    return (out.append(<const uint8_t*>&head, sizeof(DumpHead)) and out.append(<const uint8_t*>fields, fields_length)
            and out.append(bytes, length) and out.append(more_bytes, more_length))

# The span before it ends here.
cdef bint _begin_span(DumpCursor* cursor, uint32_t kind, uint64_t id) noexcept nogil:
    cdef DumpSpan span
    if cursor.spans.size:
        _end_span(cursor)
    span.kind = kind
    span.id = id
    span.offset = cursor.head.size
    span.length = 0
    return cursor.spans.push(span)

cdef inline void _end_span(DumpCursor* cursor) noexcept nogil:
    cursor.spans.back().length = cursor.head.size - cursor.spans.back().offset

cdef status_t machine_dump_prepare(Machine* machine, Dump* dump, uint32_t records, bint* done) noexcept nogil:
    cdef DumpCursor* cursor = <DumpCursor*>dump.cursor
    cdef bint is_kept = True
    if machine.applied != cursor.applied or machine.phase != PHASE_IDLE:
        return broken(&machine.broken, BROKEN_DUMP_MOVED, machine.applied, cursor.applied)
    while records and is_kept and cursor.stage < STAGE_HEAD:
        records -= 1
        if cursor.stage == STAGE_ENDED:
            is_kept = _prepare_ended(machine, cursor)
        elif cursor.stage == STAGE_LEASES:
            is_kept = _prepare_lease(machine, cursor)
        else:
            is_kept = _prepare_session(machine, cursor)
    _end_span(cursor)
    done[0] = cursor.stage == STAGE_HEAD
    return OK if is_kept else NO_MEMORY

cdef inline void _next_stage(DumpCursor* cursor) noexcept nogil:
    cursor.stage = <DumpStage>(<int>cursor.stage + 1)
    cursor.prepared = 0

cdef bint _encode_state(Machine* machine, Vec[uint8_t]* out) noexcept nogil:
    cdef DumpState state
    cdef MachineStatus status
    machine_status(machine, &status)
    state.version = FORMAT_DUMP_VERSION
    state.feature_level = status.feature_level
    state.applied = status.applied
    state.revision = status.revision
    state.compacted = status.compacted
    state.lease_ms = status.lease_ms
    state.hash_low = status.state_hash.low
    state.hash_high = status.state_hash.high
    return _append(out, DUMP_STATE, &state, sizeof(DumpState), NULL, 0, NULL, 0)

cdef bint _prepare_ended(Machine* machine, DumpCursor* cursor) noexcept nogil:
    cdef DumpEnded ended
    if cursor.prepared == machine.sessions.ended_order.size:
        _next_stage(cursor)
        return True
    ended.id = machine.sessions.ended_order.at(cursor.prepared)
    cursor.prepared += 1
    return _append(&cursor.head, DUMP_ENDED, &ended, sizeof(DumpEnded), NULL, 0, NULL, 0)

cdef bint _prepare_lease(Machine* machine, DumpCursor* cursor) noexcept nogil:
    cdef const Lease* lease
    cdef DumpLease fields
    if cursor.prepared == machine.leases.deadlines.heap.size:
        _next_stage(cursor)
        return True
    lease = <const Lease*>machine.leases.deadlines.heap.data[cursor.prepared]
    cursor.prepared += 1
    fields.id = lease.due.id
    fields.ttl_ms = lease.ttl_ms
    fields.deadline_ms = lease.due.deadline_ms
    return (_begin_span(cursor, DUMP_LEASE, lease.due.id)
            and _append(&cursor.head, DUMP_LEASE, &fields, sizeof(DumpLease), lease.note, lease.note_length, NULL, 0)
            and _prepare_owner(cursor, DUMP_LEASE_OWNER, lease.due.id,
                               rights_lease_owner(&machine.rights, lease.due.id))
            and _prepare_process(cursor, DUMP_LEASE_PROCESS, lease.due.id,
                                 processes_of_lease(&machine.processes, lease.due.id)))

cdef bint _prepare_owner(DumpCursor* cursor, uint32_t kind, uint64_t id, uint64_t owner) noexcept nogil:
    cdef DumpOwner fields
    if owner == 0:
        return True
    fields.id = id
    fields.owner = owner
    return (_begin_span(cursor, kind, id)
            and _append(&cursor.head, kind, &fields, sizeof(DumpOwner), NULL, 0, NULL, 0))

cdef bint _prepare_process(DumpCursor* cursor, uint32_t kind, uint64_t id, const Process* process) noexcept nogil:
    cdef DumpProcess fields
    if process == NULL:
        return True
    fields.id = id
    fields.member = process.member
    fields.boot = process.boot
    return (_begin_span(cursor, kind, id)
            and _append(&cursor.head, kind, &fields, sizeof(DumpProcess), NULL, 0, NULL, 0))

# A session, or one of its results.
cdef bint _prepare_session(Machine* machine, DumpCursor* cursor) noexcept nogil:
    cdef Session* session
    if cursor.prepared == machine.sessions.deadlines.heap.size:
        _next_stage(cursor)
        return _prepare_rights(machine, cursor)
    session = <Session*>machine.sessions.deadlines.heap.data[cursor.prepared]
    if cursor.next_sequence == 0:
        cursor.next_sequence = session.floor
        return _begin_span(cursor, DUMP_SESSION, session.due.id) and _encode_session(session, &cursor.head)
    if cursor.next_sequence > session.highest:
        cursor.next_sequence = 0
        cursor.prepared += 1
        return (_prepare_owner(cursor, DUMP_SESSION_OWNER, session.due.id,
                               rights_session_owner(&machine.rights, session.due.id))
                and _prepare_process(cursor, DUMP_SESSION_PROCESS, session.due.id,
                                     processes_of_session(&machine.processes, session.due.id)))
    cursor.next_sequence += 1
    return _encode_result(session, cursor.next_sequence - 1, &cursor.head)

# All at once: there are few, and they change rarely.
cdef bint _prepare_rights(Machine* machine, DumpCursor* cursor) noexcept nogil:
    cdef RightsItem kind
    cdef DumpHead* head
    cdef size_t i, start
    for i in range(rights_items(&machine.rights)):
        if not _begin_span(cursor, DUMP_RIGHTS, i):
            return False
        start = cursor.head.size
        if (not cursor.head.resize(start + sizeof(DumpHead))
                or not rights_item(&machine.rights, i, &kind, &cursor.head)):
            return False
        head = <DumpHead*>(cursor.head.data + start)
        head.length = <uint32_t>(cursor.head.size - start - sizeof(DumpHead))
        head.kind = <uint32_t>DUMP_TOKEN if kind == RIGHTS_ITEM_TOKEN else DUMP_RIGHTS + <uint32_t>kind
        cursor.spans.back().kind = head.kind
    return True

cdef bint _encode_session(const Session* session, Vec[uint8_t]* out) noexcept nogil:
    cdef DumpSession fields
    fields.id = session.due.id
    fields.ttl_ms = session.ttl_ms
    fields.deadline_ms = session.due.deadline_ms
    fields.floor = session.floor
    fields.highest = session.highest
    fields.window = session.window
    return _append(out, DUMP_SESSION, &fields, sizeof(DumpSession), NULL, 0, NULL, 0)

cdef bint _encode_result(Session* session, uint64_t sequence, Vec[uint8_t]* out) noexcept nogil:
    cdef DumpResult fields
    cdef const Kept* kept = NULL
    if session_lookup(session, sequence, &kept) != OK:
        return True
    fields.sequence = sequence
    fields.revision = kept.revision
    return _append(out, DUMP_RESULT, &fields, sizeof(DumpResult), kept_body(kept), kept.length, NULL, 0)

# Everything comes in an order of its own, so that the same state is the same dump on every node.
cdef int _by_kind_and_id(const void* left, const void* right) noexcept nogil:
    cdef const DumpSpan* a = <const DumpSpan*>left
    cdef const DumpSpan* b = <const DumpSpan*>right
    if a.kind != b.kind:
        return (a.kind > b.kind) - (a.kind < b.kind)
    return (a.id > b.id) - (a.id < b.id)


# --- chunks -----------------------------------------------------------------------------------------------------------
cdef status_t machine_dump_next(Machine* machine, Dump* dump, uint32_t bytes_max, Vec[uint8_t]* out,
                                bint* done) noexcept nogil:
    cdef DumpCursor* cursor = <DumpCursor*>dump.cursor
    cdef size_t end = out.size + max(bytes_max, <uint32_t>1)
    cdef bint is_kept = True
    if cursor.stage < STAGE_HEAD:
        return NOT_READY
    if cursor.stage == STAGE_HEAD:
        is_kept = _give_head(cursor, end, out)
    if is_kept and cursor.stage == STAGE_KEYS:
        is_kept = _give_changed(cursor, end, out) if cursor.since != NULL else _give_keys(cursor, end, out)
    if is_kept and cursor.stage == STAGE_HISTORY:
        is_kept = _give_history(cursor, end, out)
    if is_kept and cursor.stage == STAGE_USERS:
        is_kept = _give_users(cursor, end, out)
    if is_kept and cursor.stage == STAGE_RIGHTS:
        is_kept = _give_head(cursor, end, out)
    if is_kept and cursor.stage == STAGE_END and out.size < end:
        is_kept = _give_end(cursor, out)
    done[0] = cursor.stage == STAGE_DONE
    return OK if is_kept else NO_MEMORY

# Whole records of the head, as many as fit; at least one. Those of rights wait for their stage.
cdef bint _give_head(DumpCursor* cursor, size_t end, Vec[uint8_t]* out) noexcept nogil:
    cdef const DumpSpan* span
    cdef const uint8_t* record
    cdef size_t length
    if not cursor.is_sorted:
        if cursor.spans.size:
            qsort(cursor.spans.data, cursor.spans.size, sizeof(DumpSpan), _by_kind_and_id)
        cursor.is_sorted = True
    while cursor.spans_given < cursor.spans.size:
        span = &cursor.spans.data[cursor.spans_given]
        if cursor.stage == STAGE_HEAD and span.kind >= DUMP_RIGHTS:
            break
        if out.size >= end:
            return True
        record = cursor.head.data + span.offset + cursor.head_given
        length = sizeof(DumpHead) + (<const DumpHead*>record).length
        if not out.append(record, length):
            return False
        cursor.hash = hash64(cursor.hash, record, length)
        cursor.head_given += length
        if cursor.head_given == span.length:
            cursor.spans_given += 1
            cursor.head_given = 0
    cursor.stage = STAGE_KEYS if cursor.stage == STAGE_HEAD else STAGE_END
    return True

cdef bint _give_end(DumpCursor* cursor, Vec[uint8_t]* out) noexcept nogil:
    cdef DumpEnd fields
    fields.hash = cursor.hash
    cursor.stage = STAGE_DONE
    return _append(out, DUMP_END, &fields, sizeof(DumpEnd), NULL, 0, NULL, 0)

# The key stands apart: a tombstone made here has none of its own.
cdef bint _give_version(DumpCursor* cursor, Vec[uint8_t]* out, uint32_t kind, const Entry* entry,
                        const uint8_t* key) noexcept nogil:
    cdef size_t start = out.size
    cdef DumpVersion fields
    fields.create_revision = entry.create_revision
    fields.mod_revision = entry.mod_revision
    fields.version = entry.version
    fields.lease = entry.lease
    fields.value_length = entry.value_length
    fields.key_length = entry.key_length
    fields.flags = entry.flags
    if not _append(out, kind, &fields, sizeof(DumpVersion), key, entry.key_length, entry_value(entry),
                   entry.value_length):
        return False
    cursor.hash = hash64(cursor.hash, out.data + start, out.size - start)
    return True

# Keys as they were at the floor. Those that came later cost time, though they give no bytes.
cdef bint _give_keys(DumpCursor* cursor, size_t end, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t passed_bytes = 0
    cdef const Entry* entry
    while cursor.keys.entry != NULL:
        if out.size + passed_bytes >= end:
            return True
        entry = entry_at_pinned(cursor.keys.entry, cursor.floor)
        passed_bytes += TUNE_PASSED_KEY_BYTES
        if is_live(entry) and not _give_version(cursor, out, DUMP_KEY, entry, entry_key(entry)):
            return False
        cursor_next(&cursor.keys)
    cursor.stage = STAGE_HISTORY
    return True

# Keys that are at the floor not what they were in the base.
cdef bint _give_changed(DumpCursor* cursor, size_t end, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t passed_bytes = 0
    while cursor.has_more or cursor.next_changed < cursor.changed.size:
        if out.size + passed_bytes >= end:
            return True
        if cursor.next_changed == cursor.changed.size:
            if not _find_changed(cursor):
                return False
            continue
        passed_bytes += TUNE_PASSED_KEY_BYTES
        if not _give_difference(cursor, out, &cursor.changed.data[cursor.next_changed]):
            return False
        cursor.next_changed += 1
    cursor.stage = STAGE_HISTORY
    return True

cdef bint _find_changed(DumpCursor* cursor) noexcept nogil:
    cdef const Difference* last
    cdef const Entry* entry
    cursor.changed.clear()
    cursor.next_changed = 0
    if root_difference(cursor.since, cursor.root, &cursor.changed, TUNE_DIFFERENCES, cursor.from_key,
                       cursor.from_length, &cursor.has_more) != OK:
        return False
    if cursor.has_more:
        # The key that follows the last one: a zero byte longer.
        last = &cursor.changed.back()
        entry = last.newer if last.newer != NULL else last.older
        memcpy(cursor.from_key, entry_key(entry), entry.key_length)
        cursor.from_key[entry.key_length] = 0
        cursor.from_length = entry.key_length + 1
    return True

cdef bint _give_difference(DumpCursor* cursor, Vec[uint8_t]* out, const Difference* difference) noexcept nogil:
    cdef const Entry* entry = entry_at_pinned(difference.newer, cursor.floor)
    cdef Entry gone
    if is_live(entry):
        # Changed only above the floor: the history tells it.
        return entry.mod_revision <= cursor.since_revision or _give_version(cursor, out, DUMP_KEY, entry,
                                                                            entry_key(entry))
    if not is_live(difference.older):
        return True
    memset(&gone, 0, sizeof(Entry))
    gone.key_length = difference.older.key_length
    gone.flags = ENTRY_TOMBSTONE
    return _give_version(cursor, out, DUMP_KEY, &gone, entry_key(difference.older))

cdef bint _give_history(DumpCursor* cursor, size_t end, Vec[uint8_t]* out) noexcept nogil:
    cdef const Entry* entry
    cdef Step* step
    while cursor.next_revision <= cursor.revision:
        step = _step(cursor, cursor.next_revision)
        if out.size >= end:
            return True
        if cursor.next_change == 0 and not _give_revision(cursor, out, step):
            return False
        while cursor.next_change < step.count:
            entry = step_changes(step)[cursor.next_change].after
            if not _give_version(cursor, out, DUMP_CHANGE, entry, entry_key(entry)):
                return False
            cursor.next_change += 1
            if out.size >= end and cursor.next_change < step.count:
                return True
        cursor.next_revision += 1
        cursor.next_change = 0
    cursor.stage = STAGE_USERS
    return True

cdef bint _give_users(DumpCursor* cursor, size_t end, Vec[uint8_t]* out) noexcept nogil:
    cdef UserBytes* item
    cdef size_t start
    while cursor.users_given < cursor.users.size:
        if out.size >= end:
            return True
        item = &cursor.users.data[cursor.users_given]
        start = out.size
        if not _give_user(cursor, item, out):
            return False
        cursor.hash = hash64(cursor.hash, out.data + start, out.size - start)
        if item.kind != DUMP_COMMAND or cursor.users_offset == item.bytes.length:
            cursor.users_given += 1
            cursor.users_offset = 0
    cursor.stage = STAGE_RIGHTS
    return True

# The next record of a machine.
cdef bint _give_user(DumpCursor* cursor, UserBytes* item, Vec[uint8_t]* out) noexcept nogil:
    cdef const uint8_t* command = item.bytes.data + cursor.users_offset
    if item.kind == DUMP_MACHINE:
        return _append(out, DUMP_MACHINE, &item.machine, sizeof(DumpMachine), item.bytes.data, item.bytes.length, NULL,
                       0)
    if item.kind == DUMP_PART:
        return _append(out, DUMP_PART, &item.is_staged, sizeof(DumpPart), item.bytes.data, item.bytes.length, NULL, 0)
    cursor.users_offset += user_command_bytes((<const UserCommand*>command).length)
    return _append(out, DUMP_COMMAND, command, sizeof(UserCommand), command + sizeof(UserCommand),
                   (<const UserCommand*>command).length, NULL, 0)

cdef inline Step* _step(DumpCursor* cursor, uint64_t revision) noexcept nogil:
    return &cursor.blocks.data[revision // HISTORY_BLOCK_STEPS - cursor.first_block].steps[
        revision % HISTORY_BLOCK_STEPS]

cdef bint _give_revision(DumpCursor* cursor, Vec[uint8_t]* out, const Step* step) noexcept nogil:
    cdef size_t start = out.size
    cdef DumpRevision fields
    fields.revision = cursor.next_revision
    fields.wall_ms = step.wall_ms
    fields.count = step.count
    if not _append(out, DUMP_REVISION, &fields, sizeof(DumpRevision), NULL, 0, NULL, 0):
        return False
    cursor.hash = hash64(cursor.hash, out.data + start, out.size - start)
    return True
