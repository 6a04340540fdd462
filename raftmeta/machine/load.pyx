"""The load: bodies. One function a kind of record; each checks its fields first."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.machine.dump cimport (DUMP_CHANGE, DUMP_COMMAND, DUMP_END, DUMP_ENDED, DUMP_KEY, DUMP_LEASE,
                                    DUMP_LEASE_OWNER, DUMP_LEASE_PROCESS, DUMP_MACHINE, DUMP_PART, DUMP_RESULT,
                                    DUMP_REVISION, DUMP_RIGHTS, DUMP_RIGHTS_USER, DUMP_ROLE, DUMP_SESSION,
                                    DUMP_SESSION_OWNER, DUMP_SESSION_PROCESS, DUMP_STATE, DUMP_TOKEN,
                                    FORMAT_DUMP_VERSION, DumpEnd, DumpEnded, DumpHead, DumpLease, DumpMachine,
                                    DumpOwner, DumpPart, DumpProcess, DumpResult, DumpRevision, DumpSession, DumpState,
                                    DumpVersion)
from raftmeta.machine.entry cimport (ENTRY_GROUP, ENTRY_MEMBER, ENTRY_OFFSET, ENTRY_OFFSETS, ENTRY_RECORDS,
                                     ENTRY_TOPIC)
from raftmeta.machine.group_records cimport group_is_sound, member_is_sound
from raftmeta.machine.history cimport (History, Step, history_begin_at, history_commit, history_prepare,
                                       history_release, step_changes)
from raftmeta.machine.leases cimport (FORMAT_TTL_MS_MAX, Lease, Leases, leases_attach, leases_find, leases_grant,
                                      leases_release)
from raftmeta.machine.processes cimport (Process, Processes, processes_name_lease, processes_name_session,
                                         processes_release)
from raftmeta.machine.publish cimport MachineStatus, machine_publish, machine_status
from raftmeta.machine.record_keys cimport record_is_sound
from raftmeta.machine.rights cimport (RIGHTS_ITEM_TOKEN, RightsHeadImage, RightsItem, RoleImage, TokenImage,
                                      UserImage, rights_release, rights_restore, rights_restore_owner,
                                      rights_restored)
from raftmeta.machine.rights_state cimport Rights
from raftmeta.machine.sessions cimport (FORMAT_ENDED_MAX, Session, Sessions, session_restore_kept, sessions_find,
                                        sessions_release, sessions_remember_ended, sessions_restore)
from raftmeta.machine.state cimport (FORMAT_FEATURE_LEVEL_MAX, FORMAT_SESSION_WINDOW_MAX, LEVEL_OF_CONSUMER_GROUPS,
                                     LEVEL_OF_GROUPS, LEVEL_OF_PROCESSES, LEVEL_OF_RECORDS, LEVEL_OF_RIGHTS,
                                     LEVEL_OF_TOPICS, LEVEL_OF_ZNODES)
from raftmeta.machine.tree cimport (ENTRY_COUNTER, ENTRY_TOMBSTONE, ENTRY_ZNODE, Cursor, Entry, cursor_next,
                                    cursor_seek, entry_key, entry_previous, tree_cut_chain, tree_find, tree_free_entry,
                                    tree_load, tree_load_begin, tree_load_end, tree_new_entry, tree_put, tree_reclaim,
                                    tree_remove, tree_writer_root)
from raftmeta.machine.topic_records cimport offset_is_sound, offsets_is_sound, topic_is_sound
from raftmeta.machine.trim cimport machine_trim
from raftmeta.machine.user_machines cimport (FORMAT_MACHINE_NAME_BYTES_MAX, UserCommand, UserMachine, UserMachines,
                                             users_are_whole, users_release, users_restore, users_restore_command,
                                             users_restore_part)
from raftmeta.machine.znodes cimport znode_is_sound
from raftmeta.native.intrinsics cimport hash64
from raftmeta.status cimport BAD_CHECKSUM, BAD_FIELD, BAD_LENGTH, BAD_VERSION, INCOMPLETE, NO_MEMORY, OK
from raftmeta.wire.commands cimport CHANGES_MAX, KEY_BYTES_MAX, Bytes


cdef status_t machine_load_chunk(Machine* machine, const uint8_t* bytes, size_t length) noexcept nogil:
    cdef size_t position = 0
    cdef DumpHead head
    cdef status_t status
    while position < length:
        if length - position < sizeof(DumpHead):
            return BAD_LENGTH
        head = (<const DumpHead*>(bytes + position))[0]
        position += sizeof(DumpHead)
        if length - position < head.length:
            return BAD_LENGTH
        status = _record(machine, head.kind, bytes + position, head.length)
        if status != OK:
            return status
        if head.kind != DUMP_END:       # it names the hash of those before it
            machine.load.hash = hash64(machine.load.hash, bytes + position - sizeof(DumpHead),
                                       sizeof(DumpHead) + head.length)
        position += head.length
    return OK

cdef status_t machine_load_done(Machine* machine) noexcept nogil:
    if machine.load.kind != DUMP_END:
        return INCOMPLETE
    return _attach_keys(machine)

# Bytes of the struct of a kind; 0: no such kind.
cdef uint32_t _fields_of(uint32_t kind) noexcept nogil:
    if kind == DUMP_STATE:
        return sizeof(DumpState)
    if kind == DUMP_ENDED:
        return sizeof(DumpEnded)
    if kind == DUMP_LEASE:
        return sizeof(DumpLease)
    if kind == DUMP_SESSION:
        return sizeof(DumpSession)
    if kind == DUMP_RESULT:
        return sizeof(DumpResult)
    if kind == DUMP_KEY or kind == DUMP_CHANGE:
        return sizeof(DumpVersion)
    if kind == DUMP_REVISION:
        return sizeof(DumpRevision)
    if kind == DUMP_MACHINE:
        return sizeof(DumpMachine)
    if kind == DUMP_PART:
        return sizeof(DumpPart)
    if kind == DUMP_COMMAND:
        return sizeof(UserCommand)
    if kind == DUMP_RIGHTS:
        return sizeof(RightsHeadImage)
    if kind == DUMP_ROLE:
        return sizeof(RoleImage)
    if kind == DUMP_RIGHTS_USER:
        return sizeof(UserImage)
    if kind == DUMP_TOKEN:
        return sizeof(TokenImage)
    if kind == DUMP_LEASE_OWNER or kind == DUMP_SESSION_OWNER:
        return sizeof(DumpOwner)
    if kind == DUMP_LEASE_PROCESS or kind == DUMP_SESSION_PROCESS:
        return sizeof(DumpProcess)
    return sizeof(DumpEnd) if kind == DUMP_END else 0

cdef bint _may_follow(Machine* machine, uint32_t kind) noexcept nogil:
    cdef uint32_t before = machine.load.kind
    if kind == DUMP_STATE:
        return before == DUMP_END or before == 0 and machine.applied == 0
    if machine.load.changes_left > 0:
        return kind == DUMP_CHANGE
    if kind == DUMP_CHANGE or before == 0 or before == DUMP_END:
        return False
    if kind == DUMP_RESULT:
        return before == DUMP_SESSION or before == DUMP_RESULT
    if before == DUMP_RESULT and kind == DUMP_SESSION or before == DUMP_CHANGE and kind == DUMP_REVISION:
        return True
    if before in (DUMP_PART, DUMP_COMMAND) and kind == DUMP_MACHINE:
        return True
    return kind > before or kind == before

cdef status_t _record(Machine* machine, uint32_t kind, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef status_t status
    if not _may_follow(machine, kind):
        return BAD_FIELD
    if length < _fields_of(kind):
        return BAD_LENGTH
    if machine.load.kind == DUMP_END:
        _begin_difference(machine)
    # The keys are complete when what follows them comes.
    if kind > DUMP_KEY and machine.load.kind <= DUMP_KEY and not machine.load.is_difference:
        status = tree_load_end(machine.tree, machine.compacted)
        if status != OK:
            return status
    if kind != machine.load.kind:
        machine.load.number = 1
    status = _load(machine, kind, bytes, length)
    machine.load.kind = kind
    return status

# The loaded base is complete, and the changes since follow; leases, sessions, their processes, user machines and rights
# come anew.
cdef void _begin_difference(Machine* machine) noexcept nogil:
    leases_release(&machine.leases)
    sessions_release(&machine.sessions)
    memset(&machine.leases, 0, sizeof(Leases))
    memset(&machine.sessions, 0, sizeof(Sessions))
    processes_release(&machine.processes)
    memset(&machine.processes, 0, sizeof(Processes))
    users_release(&machine.users)
    memset(&machine.users, 0, sizeof(UserMachines))
    rights_release(&machine.rights)
    memset(&machine.rights, 0, sizeof(Rights))
    machine.load.kind = 0
    machine.load.is_difference = True
    machine.load.since_revision = machine.revision

# Leases and sessions come by id, results by sequence: each once.
cdef inline bint _ascends(Machine* machine, uint64_t number) noexcept nogil:
    if number < machine.load.number:
        return False
    machine.load.number = number + 1
    return number != ~<uint64_t>0

cdef status_t _load(Machine* machine, uint32_t kind, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef Bytes rest
    if DUMP_RIGHTS <= kind <= DUMP_TOKEN:
        return _load_rights(machine, kind, bytes, length)
    cdef bint has_rest = kind in (DUMP_LEASE, DUMP_RESULT, DUMP_KEY, DUMP_CHANGE, DUMP_MACHINE, DUMP_PART, DUMP_COMMAND)
    rest.data = bytes + _fields_of(kind)
    rest.length = length - _fields_of(kind)
    if rest.length > 0 and not has_rest:
        return BAD_LENGTH
    if kind == DUMP_KEY or kind == DUMP_CHANGE:
        return _load_version(machine, kind, <const DumpVersion*>bytes, &rest)
    if kind == DUMP_REVISION:
        return _load_revision(machine, <const DumpRevision*>bytes)
    if kind == DUMP_RESULT:
        return _load_result(machine, <const DumpResult*>bytes, &rest)
    if kind == DUMP_SESSION:
        return _load_session(machine, <const DumpSession*>bytes)
    if kind == DUMP_LEASE:
        return _load_lease(machine, <const DumpLease*>bytes, &rest)
    if kind == DUMP_LEASE_PROCESS or kind == DUMP_SESSION_PROCESS:
        return _load_process(machine, kind, <const DumpProcess*>bytes)
    if kind == DUMP_ENDED:
        return _load_ended(machine, (<const DumpEnded*>bytes).id)
    if kind == DUMP_STATE:
        return _load_state(machine, <const DumpState*>bytes)
    if kind in (DUMP_MACHINE, DUMP_PART, DUMP_COMMAND):
        return _load_user(machine, kind, bytes, &rest)
    return _load_end(machine, <const DumpEnd*>bytes) if kind == DUMP_END else <status_t>BAD_FIELD

cdef status_t _load_state(Machine* machine, const DumpState* state) noexcept nogil:
    if state.version != FORMAT_DUMP_VERSION:
        return BAD_VERSION
    if state.feature_level == 0 or state.feature_level > FORMAT_FEATURE_LEVEL_MAX:
        return BAD_VERSION
    if state.compacted > state.revision or state.revision > state.applied:
        return BAD_FIELD
    if state.applied < machine.applied or state.revision < machine.revision or state.compacted < machine.compacted:
        return BAD_FIELD
    machine.applied = state.applied
    machine.lease_ms = state.lease_ms
    machine.feature_level = state.feature_level
    machine.load.state_hash.low = state.hash_low
    machine.load.state_hash.high = state.hash_high
    machine.revision = state.revision
    machine.load.floor = state.compacted
    if not machine.load.is_difference:
        _begin_history(machine, state.compacted)
        return tree_load_begin(machine.tree)
    if state.compacted > machine.load.since_revision:
        return _pass_history(machine)
    return OK

cdef void _begin_history(Machine* machine, uint64_t floor) noexcept nogil:
    memset(&machine.history, 0, sizeof(History))
    history_begin_at(&machine.history, floor)
    machine.compacted = floor
    machine.readers_floor = floor

# The floor has passed all that was loaded before: of it only the newest version of each key stays, to be changed.
cdef status_t _pass_history(Machine* machine) noexcept nogil:
    _move_floor(machine, machine.load.since_revision)
    if machine.history.trimmed != machine.load.since_revision:
        return NO_MEMORY
    history_release(&machine.history)
    _begin_history(machine, machine.load.floor)
    return OK

cdef void _move_floor(Machine* machine, uint64_t floor) noexcept nogil:
    machine.compacted = floor
    machine.readers_floor = floor
    machine_trim(machine, ~<uint32_t>0)

cdef status_t _load_ended(Machine* machine, uint64_t id) noexcept nogil:
    if id == 0 or machine.sessions.ended.find(id) != NULL or machine.sessions.ended.size == FORMAT_ENDED_MAX:
        return BAD_FIELD
    return OK if sessions_remember_ended(&machine.sessions, id) else NO_MEMORY

cdef status_t _load_lease(Machine* machine, const DumpLease* fields, const Bytes* note) noexcept nogil:
    cdef status_t status
    if not _ascends(machine, fields.id):
        return BAD_FIELD
    status = leases_grant(&machine.leases, fields.id, fields.ttl_ms, fields.deadline_ms, note)
    return status if status == OK or status == NO_MEMORY else <status_t>BAD_FIELD

cdef status_t _load_session(Machine* machine, const DumpSession* fields) noexcept nogil:
    cdef Session image
    memset(&image, 0, sizeof(Session))
    if fields.id == 0 or fields.ttl_ms == 0 or fields.ttl_ms > FORMAT_TTL_MS_MAX or fields.floor == 0:
        return BAD_FIELD
    # Its window is memory, taken at once: no machine gives a session more (machine_apply).
    if fields.window == 0 or fields.window > FORMAT_SESSION_WINDOW_MAX:
        return BAD_FIELD
    if sessions_find(&machine.sessions, fields.id) != NULL:
        return BAD_FIELD
    if fields.highest >= fields.floor and fields.highest - fields.floor >= fields.window:
        return BAD_FIELD
    image.due.id = fields.id
    image.due.deadline_ms = fields.deadline_ms
    image.ttl_ms = fields.ttl_ms
    image.floor = fields.floor
    image.highest = fields.highest
    image.window = <uint32_t>fields.window
    machine.load.session = sessions_restore(&machine.sessions, &image)
    return OK if machine.load.session != NULL else NO_MEMORY


cdef status_t _load_result(Machine* machine, const DumpResult* fields, const Bytes* body) noexcept nogil:
    if not _ascends(machine, fields.sequence):
        return BAD_FIELD
    return session_restore_kept(&machine.sessions, machine.load.session, fields.sequence, fields.revision, body.data,
                                body.length)

# A session has an opener that is known, or it does not stand here.
cdef status_t _load_process(Machine* machine, uint32_t kind, const DumpProcess* fields) noexcept nogil:
    cdef bint is_lease = kind == DUMP_LEASE_PROCESS
    cdef Process process
    if machine.feature_level < LEVEL_OF_PROCESSES or not _ascends(machine, fields.id):
        return BAD_FIELD
    if (fields.member == 0) != (fields.boot == 0) or fields.member == 0 and not is_lease:
        return BAD_FIELD
    process.member = fields.member
    process.boot = fields.boot
    if is_lease:
        if leases_find(&machine.leases, fields.id) == NULL:
            return BAD_FIELD
        return OK if processes_name_lease(&machine.processes, fields.id, &process) else NO_MEMORY
    if sessions_find(&machine.sessions, fields.id) == NULL:
        return BAD_FIELD
    return OK if processes_name_session(&machine.processes, fields.id, &process) else NO_MEMORY


# --- user machines ----------------------------------------------------------------------------------------------------
cdef status_t _load_user(Machine* machine, uint32_t kind, const uint8_t* bytes, const Bytes* rest) noexcept nogil:
    cdef const UserCommand* head = <const UserCommand*>bytes
    if kind == DUMP_MACHINE:
        return _load_machine(machine, <const DumpMachine*>bytes, rest)
    if kind == DUMP_PART:
        if (<const DumpPart*>bytes).is_staged > 1:
            return BAD_FIELD
        return users_restore_part(&machine.users, (<const DumpPart*>bytes).is_staged != 0, rest)
    if rest.length != head.length or head.index > machine.applied:
        return BAD_FIELD
    return users_restore_command(&machine.users, head, rest.data)

cdef status_t _load_machine(Machine* machine, const DumpMachine* fields, const Bytes* name) noexcept nogil:
    cdef UserMachine image
    memset(&image, 0, sizeof(UserMachine))
    if name.length == 0 or name.length > FORMAT_MACHINE_NAME_BYTES_MAX:
        return BAD_FIELD
    image.name_length = <uint8_t>name.length
    memcpy(image.name, name.data, name.length)
    image.point = fields.point
    image.point_bytes = fields.point_bytes
    image.dump.index = fields.dump_index
    image.dump.digest = fields.dump_digest
    image.dump.total = fields.dump_total
    image.staged.index = fields.staged_index
    image.staged.digest = fields.staged_digest
    image.staged.total = fields.staged_total
    return users_restore(&machine.users, &image)


# --- rights -----------------------------------------------------------------------------------------------------------
cdef status_t _load_rights(Machine* machine, uint32_t kind, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef const DumpOwner* owner = <const DumpOwner*>bytes
    cdef bint is_session = kind == DUMP_SESSION_OWNER
    if machine.feature_level < LEVEL_OF_RIGHTS:
        return BAD_FIELD
    if kind <= DUMP_RIGHTS_USER:
        return rights_restore(&machine.rights, <RightsItem>(kind - DUMP_RIGHTS), bytes, length)
    if kind == DUMP_TOKEN:
        if leases_find(&machine.leases, (<const TokenImage*>bytes).id) == NULL:
            return BAD_FIELD    # nothing would end it
        return rights_restore(&machine.rights, RIGHTS_ITEM_TOKEN, bytes, length)
    if length != sizeof(DumpOwner):
        return BAD_LENGTH
    if not _ascends(machine, owner.id):
        return BAD_FIELD
    if is_session and sessions_find(&machine.sessions, owner.id) == NULL:
        return BAD_FIELD
    if not is_session and leases_find(&machine.leases, owner.id) == NULL:
        return BAD_FIELD
    return rights_restore_owner(&machine.rights, is_session, owner.id, owner.owner)


# --- keys and history -------------------------------------------------------------------------------------------------
cdef bint _is_sound(Machine* machine, uint32_t kind, const DumpVersion* fields, const Bytes* key,
                    const uint8_t* value) noexcept nogil:
    if fields.flags & ENTRY_TOMBSTONE:
        if fields.flags != ENTRY_TOMBSTONE or fields.value_length or fields.lease or fields.create_revision:
            return False
        if kind == DUMP_KEY:
            return (machine.load.is_difference and machine.compacted > machine.load.since_revision
                    and fields.version == 0 and fields.mod_revision == 0)
        return fields.version == 0 and fields.mod_revision == machine.load.revision
    if fields.flags not in (0, ENTRY_COUNTER, ENTRY_ZNODE, ENTRY_GROUP, ENTRY_MEMBER, ENTRY_TOPIC, ENTRY_OFFSETS,
                            ENTRY_OFFSET, ENTRY_RECORDS):
        return False
    if fields.version == 0 or fields.create_revision == 0:
        return False
    if fields.flags & ENTRY_COUNTER and fields.value_length != sizeof(uint64_t):
        return False
    if fields.flags == ENTRY_ZNODE and (
            machine.feature_level < LEVEL_OF_ZNODES
            or not znode_is_sound(value, fields.value_length, fields.mod_revision, fields.lease)):
        return False
    if fields.flags & (ENTRY_GROUP | ENTRY_MEMBER) and not _is_sound_group(machine, fields, value):
        return False
    if fields.flags & (ENTRY_TOPIC | ENTRY_OFFSETS | ENTRY_OFFSET) and not _is_sound_topic(machine, fields, value):
        return False
    if fields.flags & ENTRY_RECORDS and (
            machine.feature_level < LEVEL_OF_RECORDS
            or not record_is_sound(key, value, fields.value_length, fields.lease)):
        return False
    if fields.create_revision > fields.mod_revision:
        return False
    if kind == DUMP_CHANGE:
        return fields.mod_revision == machine.load.revision
    return fields.mod_revision <= machine.compacted and (
        not machine.load.is_difference or fields.mod_revision > machine.load.since_revision)

cdef bint _is_sound_group(Machine* machine, const DumpVersion* fields, const uint8_t* value) noexcept nogil:
    if machine.feature_level < LEVEL_OF_GROUPS:
        return False
    cdef bint knows_consumers = machine.feature_level >= LEVEL_OF_CONSUMER_GROUPS
    if fields.flags & ENTRY_GROUP:
        return group_is_sound(value, fields.value_length, fields.lease, knows_consumers)
    return member_is_sound(value, fields.value_length, fields.lease, knows_consumers)

cdef bint _is_sound_topic(Machine* machine, const DumpVersion* fields, const uint8_t* value) noexcept nogil:
    if machine.feature_level < LEVEL_OF_TOPICS:
        return False
    if fields.flags & ENTRY_TOPIC:
        return topic_is_sound(value, fields.value_length, fields.lease)
    if fields.flags & ENTRY_OFFSETS:
        return offsets_is_sound(value, fields.value_length, fields.lease)
    return offset_is_sound(value, fields.value_length, fields.lease)

cdef status_t _load_version(Machine* machine, uint32_t kind, const DumpVersion* fields,
                            const Bytes* rest) noexcept nogil:
    cdef Entry* entry
    cdef Bytes key
    cdef status_t status
    key.data = rest.data
    key.length = fields.key_length
    if rest.length != <uint64_t>fields.key_length + fields.value_length:
        return BAD_LENGTH
    if fields.key_length == 0 or fields.key_length > KEY_BYTES_MAX:
        return BAD_FIELD
    if not _is_sound(machine, kind, fields, &key, rest.data + fields.key_length):
        return BAD_FIELD
    if kind == DUMP_KEY and fields.flags & ENTRY_TOMBSTONE:
        return _load_gone(machine, rest.data, fields.key_length)
    entry = tree_new_entry(machine.tree, rest.data, fields.key_length, rest.data + fields.key_length,
                           fields.value_length, fields.create_revision, fields.mod_revision, fields.version,
                           fields.lease, fields.flags)
    if entry == NULL:
        return NO_MEMORY
    machine.load.has_leased = machine.load.has_leased or fields.lease != 0
    if kind == DUMP_CHANGE:
        return _load_change(machine, entry)
    if machine.load.is_difference:
        status = _load_changed_key(machine, entry)
    else:
        status = tree_load(machine.tree, entry)
    if status != OK:
        tree_free_entry(machine.tree, entry)
    return status

# A key of a difference: what it was before is below the floor.
cdef status_t _load_changed_key(Machine* machine, Entry* entry) noexcept nogil:
    cdef const Entry* known = tree_find(machine.tree, entry_key(entry), entry.key_length)
    cdef status_t status
    if known != NULL and known.mod_revision > machine.load.since_revision:
        return BAD_FIELD        # twice in one difference
    status = tree_put(machine.tree, entry)
    if status == OK:
        tree_cut_chain(machine.tree, entry, machine.compacted)
    return status

cdef status_t _load_gone(Machine* machine, const uint8_t* key, uint16_t key_length) noexcept nogil:
    cdef Entry* gone
    cdef status_t status
    if tree_find(machine.tree, key, key_length) == NULL:
        return BAD_FIELD
    gone = tree_new_entry(machine.tree, key, key_length, NULL, 0, 0, machine.compacted, 0, 0, ENTRY_TOMBSTONE)
    if gone == NULL:
        return NO_MEMORY
    status = tree_put(machine.tree, gone)
    if status != OK:
        tree_free_entry(machine.tree, gone)
        return status
    return tree_remove(machine.tree, key, key_length)

cdef status_t _load_revision(Machine* machine, const DumpRevision* fields) noexcept nogil:
    if fields.revision != machine.history.newest + 1 or fields.revision > machine.revision:
        return BAD_FIELD
    if fields.count == 0 or fields.count > 2 * CHANGES_MAX:
        return BAD_FIELD
    machine.load.revision = fields.revision
    machine.load.changes_left = <uint32_t>fields.count
    return OK if history_prepare(&machine.history, <uint32_t>fields.count, fields.wall_ms) != NULL else NO_MEMORY

# Put again what was put then: chain and change record come out as they were. Whether it is twice in one revision shows
# when it stands in the tree, which is then of no use any more and keeps it.
cdef status_t _load_change(Machine* machine, Entry* entry) noexcept nogil:
    cdef Step* step = machine.history.prepared
    cdef const Entry* before
    cdef status_t status = tree_put(machine.tree, entry)
    if status != OK:
        tree_free_entry(machine.tree, entry)
        return status
    before = entry_previous(entry)
    if before != NULL and before.mod_revision == entry.mod_revision:
        return BAD_FIELD
    step_changes(step)[step.count].after = entry
    step.count += 1
    machine.load.changes_left -= 1
    if machine.load.changes_left == 0:
        history_commit(&machine.history, step)
    return OK

cdef status_t _load_end(Machine* machine, const DumpEnd* fields) noexcept nogil:
    cdef MachineStatus loaded
    cdef status_t status
    if fields.hash != machine.load.hash:
        return BAD_CHECKSUM
    if machine.history.newest != machine.revision or not users_are_whole(&machine.users):
        return BAD_FIELD
    if machine.load.is_difference:
        _move_floor(machine, machine.load.floor)
    status = rights_restored(&machine.rights)
    if status != OK:
        return status
    machine_status(machine, &loaded)
    if loaded.state_hash.low != machine.load.state_hash.low or loaded.state_hash.high != machine.load.state_hash.high:
        return BAD_CHECKSUM
    status = machine_publish(machine)
    if status == OK:
        tree_reclaim(machine.tree, ~<uint32_t>0)
    return status

cdef status_t _attach_keys(Machine* machine) noexcept nogil:
    cdef Cursor cursor
    cdef Lease* lease
    if not machine.load.has_leased:
        return OK       # a walk over all keys would find nothing
    cursor_seek(&cursor, tree_writer_root(machine.tree), NULL, 0)
    while cursor.entry != NULL:
        if cursor.entry.lease != 0:
            lease = leases_find(&machine.leases, cursor.entry.lease)
            if lease == NULL or lease.key_count == CHANGES_MAX:
                return BAD_FIELD
            if not leases_attach(&machine.leases, lease, <Entry*>cursor.entry):
                return NO_MEMORY
        cursor_next(&cursor)
    return OK
