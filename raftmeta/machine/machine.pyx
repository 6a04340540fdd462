"""The replicated machine: apply, and what the leader's engine asks.

One entry, step by step:
  1. machine_apply decodes the command. Nonsense is answered COMMAND_INVALID; a kind this build does not know is
     fatal, for other nodes may have applied it.
  2. _admit looks at its session: an unknown one, a duplicate and an evicted sequence end here and change nothing.
  3. While rights are on, they decide about the whole command (rights_decide.pyx). Then the fence is checked. Both come
     before anything of the command itself.
  4. A refusal is a result like any other. Changes of keys are planned whole (plan.pyx) before the first is made.
  5. The changes are made, in slices; the revision and its change record come into being after the last.
  6. _finish encodes the result, keeps it in the session and moves `applied`.
All of it is a function of the state and the entry: no clock, no random source, no address, no limit of this node
alone.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.machine.deadlines cimport deadline_after, deadlines_due
from raftmeta.machine.entry cimport ENTRY_MEMBER, ENTRY_ZNODE
from raftmeta.machine.groups cimport (groups_plan_removed, groups_run, groups_settle, groups_timer,
                                      groups_timer_size)
from raftmeta.machine.history cimport (Step, history_commit, history_prepare, history_release, history_step,
                                       step_changes)
from raftmeta.machine.invariants cimport (BROKEN_APPLY_ORDER, BROKEN_HISTORY_ORDER, BROKEN_LEASE_DETACHED,
                                          BROKEN_LEASE_KEYS, BROKEN_PLAN_REVISION, BROKEN_SESSION_WINDOW)
from raftmeta.machine.leases cimport (Lease, lease_is_own, leases_attach, leases_choose_id, leases_detach, leases_end,
                                      leases_find, leases_grant, leases_keys, leases_release, leases_renew)
from raftmeta.machine.offsets cimport offsets_run
from raftmeta.machine.plan cimport (Planned, PlannedZnode, is_live, plan_changes, plan_clear, plan_delete,
                                    plan_release, plan_touch, planned_is_change)
from raftmeta.machine.processes cimport (Process, processes_hold, processes_lease_ended, processes_leases,
                                         processes_name_lease, processes_name_session, processes_of_lease,
                                         processes_of_session, processes_release, processes_session_ended,
                                         processes_sessions, processes_share_lease)
from raftmeta.machine.record_logs cimport records_run
from raftmeta.machine.rights cimport (rights_change, rights_check_token, rights_has_token, rights_lease_ended,
                                      rights_leases_ended, rights_own_lease, rights_own_session, rights_release,
                                      rights_session_ended, rights_session_owner)
from raftmeta.machine.rights_decide cimport rights_decide, rights_know
from raftmeta.machine.rights_state cimport OWNER_NODE, RIGHTS_TOKEN_PUT, Denial, TokenAsked
from raftmeta.machine.sessions cimport (Kept, Session, kept_body, session_advance, session_keep, session_lookup,
                                        sessions_end, sessions_find, sessions_open, sessions_release)
from raftmeta.machine.state cimport (FORMAT_FEATURE_LEVEL_MAX, LEVEL_OF_CONSUMER_GROUPS, LEVEL_OF_GROUPS,
                                     LEVEL_OF_JOIN_LEASES, LEVEL_OF_PROCESSES, LEVEL_OF_RANGE_COMPARES,
                                     LEVEL_OF_RECORDS, LEVEL_OF_RIGHTS, LEVEL_OF_TOPICS, LEVEL_OF_USER_MACHINES,
                                     LEVEL_OF_ZNODES, PHASE_EVALUATE,
                                     PHASE_IDLE, PHASE_MAKE, PHASE_ZNODES)
from raftmeta.machine.transactions cimport transaction_begin, transaction_release, transaction_step
from raftmeta.machine.tree cimport (Entry, entry_key, tree_create_with, tree_destroy, tree_find,
                                    tree_free_entry, tree_new_entry, tree_new_znode, tree_put)
from raftmeta.machine.tree_state cimport TUNE_TREE_FANOUT
from raftmeta.machine.user_machines cimport users_command, users_dump_part, users_release
from raftmeta.machine.znodes cimport (znodes_begin, znodes_keep_lease, znodes_plan_removed, znodes_settle,
                                      znodes_step)
from raftmeta.native.atomics cimport store_release
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport (MARK_COMMAND_OF_ENDED_SESSION, MARK_COMMAND_REPEATED, MARK_HISTORY_COMPACTED,
                                    MARK_LEASE_OF_DEAD_PROCESS, MARK_LEASE_RENEWED, MARK_RENEWED_BEFORE_EXPIRY,
                                    MARK_SESSION_OF_DEAD_PROCESS, MARK_ZNODE_KEPT_FOR_CHILDREN,
                                    MARK_ZNODE_REQUEST_EARLY, mark)
from raftmeta.raft.types cimport ENTRY_COMMAND, ENTRY_MEMBERSHIP, ENTRY_NOOP
from raftmeta.status cimport (COMMAND_INVALID, COMPACTED, FENCED, FUTURE_REVISION, GROUP_REFUSED, GROUP_WRITE,
                              KEY_INVALID, LEASE_EXPIRED, NO_MEMORY, NOT_FOUND, OK, OUT_OF_ORDER,
                              PERMISSION_DENIED, SESSION_UNKNOWN, UNKNOWN_ENTRY, VALUE_TOO_LARGE, ZNODE_REFUSED,
                              ZNODE_WRITE, is_fatal)
from raftmeta.wire.commands cimport (CHANGES_MAX, COMMAND_COMPACT, COMMAND_FEATURE_LEVEL, COMMAND_GROUPS, COMMAND_KEYS,
                                     COMMAND_LEASE_EXPIRE, COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE,
                                     COMMAND_LEASE_REVOKE, COMMAND_PROCESS_END, COMMAND_RECORDS, COMMAND_RIGHTS,
                                     COMMAND_SESSION_CLOSE, COMMAND_SESSION_EXPIRE, COMMAND_SESSION_OPEN,
                                     COMMAND_TOPICS, COMMAND_USER, COMMAND_USER_DUMP, COMMAND_ZNODES, COMPARE_OF_ALL,
                                     SPEAKER_NONE,
                                     Bytes, Command, Fence, LeaseItem, command_decode, command_init, command_release,
                                     result_array, result_begin, result_bytes, result_nil, result_unsigned)
from raftmeta.wire.groups cimport GROUP_CONSUMER, groups_verb

# --- life -------------------------------------------------------------------------------------------------------------
cdef Machine* machine_create(const MachineLimits* limits) noexcept nogil:
    return machine_create_with(limits, TUNE_TREE_FANOUT, ~<uint64_t>0)

cdef Machine* machine_create_with(const MachineLimits* limits, uint16_t fanout, uint64_t bytes_max) noexcept nogil:
    cdef Machine* machine = <Machine*>calloc(1, sizeof(Machine))
    if machine == NULL:
        return NULL
    machine.limits = limits[0]
    machine.feature_level = 1
    command_init(&machine.command)
    machine.tree = tree_create_with(fanout, bytes_max)
    if machine.tree == NULL:
        free(machine)
        return NULL
    machine.tree.slab.store = limits.pieces
    return machine

cdef void machine_destroy(Machine* machine) noexcept nogil:
    if machine == NULL:
        return
    history_release(&machine.history)
    leases_release(&machine.leases)
    sessions_release(&machine.sessions)
    processes_release(&machine.processes)
    users_release(&machine.users)
    rights_release(&machine.rights)
    command_release(&machine.command)
    transaction_release(&machine.transaction)
    plan_release(&machine.plan)
    machine.members.release()
    machine.ending.release()
    machine.entries.release()
    machine.left_behind.release()
    machine.result.release()
    tree_destroy(machine.tree)
    free(machine)


# --- apply ------------------------------------------------------------------------------------------------------------
cdef ApplyOutcome machine_apply(Machine* machine, const Record* record, ApplyResult* result) noexcept nogil:
    memset(result, 0, sizeof(ApplyResult))
    result.index = record.index
    # Of an entry under way, too: `applied` moves at its end.
    if record.index != machine.applied + 1:
        return _fatal(result, broken(&machine.broken, BROKEN_APPLY_ORDER, record.index, machine.applied + 1))
    if machine.phase != PHASE_IDLE:
        result.session = machine.command.session
        result.sequence = machine.command.sequence
        return _continue(machine, record, result)
    # The clock never goes back, whatever an entry says.
    machine.lease_ms = max(machine.lease_ms, record.lease_ms)
    if record.type == ENTRY_NOOP or record.type == ENTRY_MEMBERSHIP or _is_skipped(&machine.limits, record):
        machine.applied = record.index
        result.revision = machine.revision
        return APPLY_DONE
    return _begin(machine, record, result) if record.type == ENTRY_COMMAND else _fatal(result, UNKNOWN_ENTRY)

# Passed over like a no-op: it changes nothing, and nobody is answered.
cdef inline bint _is_skipped(const MachineLimits* limits, const Record* record) noexcept nogil:
    cdef uint32_t i
    for i in range(limits.skipped_count):
        if limits.skipped[i].index == record.index and limits.skipped[i].chain == record.chain:
            return True
    return False

cdef inline ApplyOutcome _fatal(ApplyResult* result, status_t status) noexcept nogil:
    result.status = status
    return APPLY_FATAL

cdef ApplyOutcome _begin(Machine* machine, const Record* record, ApplyResult* result) noexcept nogil:
    cdef Command* command = &machine.command
    cdef status_t status = command_decode(<const uint8_t*>record + sizeof(Record), record.length, command)
    machine.transaction.body.clear()
    plan_clear(&machine.plan, machine.tree, machine.revision + 1)
    result.session = command.session
    result.sequence = command.sequence
    if status == NO_MEMORY:
        return _fatal(result, status)
    if status == COMMAND_INVALID and command.kind > COMMAND_GROUPS and command.kind not in (
            COMMAND_TOPICS, COMMAND_RECORDS, COMMAND_PROCESS_END):
        return _fatal(result, UNKNOWN_ENTRY)
    if status != OK:
        return _answer(machine, record, result, KEY_INVALID if status == KEY_INVALID else <status_t>COMMAND_INVALID)
    if command.kind == COMMAND_SESSION_OPEN and command.sequence == 0 and command.session in (0, command.id):
        result.session = command.id     # its caller waits under this id, also for a refusal
    status = _know(machine)
    if status == OK:
        status = _admit(machine, result)
    if result.is_duplicate:
        machine.applied = record.index
        return APPLY_DONE
    if status == NO_MEMORY:
        return _fatal(result, status)
    if status != OK:
        return _answer(machine, record, result, status)
    if machine.rights.is_enabled:
        status = rights_decide(&machine.rights, &machine.leases, &machine.speaker, command, &machine.denial)
        if status != OK:
            return _finish(machine, record, result, status)
    if not _holds(machine, &command.fence):
        return _finish(machine, record, result, FENCED)
    return _run(machine, record, result)

# Who speaks; a session that nobody owns becomes the first speaker's. Nothing is asked before rights were configured.
cdef status_t _know(Machine* machine) noexcept nogil:
    cdef Command* command = &machine.command
    cdef status_t status
    if command.speaker != SPEAKER_NONE and machine.feature_level < LEVEL_OF_RIGHTS:
        return COMMAND_INVALID
    if machine.rights.table == NULL:
        return OK
    memset(&machine.denial, 0, sizeof(machine.denial))
    status = rights_know(&machine.rights, command, &machine.speaker)
    if status != OK or machine.speaker.user == NULL or rights_session_owner(&machine.rights, command.session) != 0:
        return status
    return _own(machine, command.session)

# While rights were never configured, nobody owns anything.
cdef status_t _own(Machine* machine, uint64_t session) noexcept nogil:
    cdef uint64_t owner
    if machine.rights.table == NULL or sessions_find(&machine.sessions, session) == NULL:
        return OK
    if machine.speaker.user != NULL:
        owner = machine.speaker.user.number
    elif machine.command.speaker != SPEAKER_NONE and machine.speaker.is_node:
        owner = OWNER_NODE
    else:
        return OK
    return OK if rights_own_session(&machine.rights, session, owner) else NO_MEMORY

# Ask the session of the command: OK to go on, a status that is answered without being kept, or a duplicate.
cdef status_t _admit(Machine* machine, ApplyResult* result) noexcept nogil:
    cdef const Command* command = &machine.command
    cdef const Kept* kept = NULL
    cdef Session* session
    cdef status_t status
    if command.kind == COMMAND_SESSION_OPEN and command.sequence == 0 and command.session in (0, command.id):
        # Opening is idempotent: there is nothing to keep, and nowhere yet.
        return OK
    if command.session == 0:
        return OK
    session = sessions_find(&machine.sessions, command.session)
    if session == NULL:
        mark(MARK_COMMAND_OF_ENDED_SESSION)
        return SESSION_UNKNOWN
    # A keep-alive may be applied twice, so it needs no sequence and takes no place among the results.
    if command.sequence == 0 and command.kind != COMMAND_LEASE_KEEP_ALIVE:
        return COMMAND_INVALID
    session_advance(&machine.sessions, session, command.lowest_unanswered, machine.lease_ms)
    if command.sequence == 0:
        return OK
    status = session_lookup(session, command.sequence, &kept)
    if status == OK:
        _repeat(result, kept)
    if status == NOT_FOUND:
        if command.kind in (COMMAND_ZNODES, COMMAND_TOPICS, COMMAND_RECORDS):
            return _admit_order(session, command.pointer)
        return OK
    return status

# A session sends requests without waiting, and none must overtake an earlier one:
#     1. a node sends A and then B, and the leader changes,
#     2. A was never in a log; B is proposed again first,
#     3. B would be applied before A.
# Nothing is kept, so B may be sent again once A was. A below the floor was applied, and its caller has the answer.
cdef inline status_t _admit_order(Session* session, uint64_t after) noexcept nogil:
    cdef const Kept* kept = NULL
    if after < session.floor or session_lookup(session, after, &kept) == OK:
        return OK
    mark(MARK_ZNODE_REQUEST_EARLY)
    return OUT_OF_ORDER

# The answer is the one from then, to the byte.
cdef void _repeat(ApplyResult* result, const Kept* kept) noexcept nogil:
    mark(MARK_COMMAND_REPEATED)
    result.is_duplicate = True
    result.body = kept_body(kept)
    result.length = kept.length
    result.revision = kept.revision
    # [status, revision, body]: statuses of results are below 128, one byte behind that of the array.
    result.status = result.body[1]

cdef bint _holds(Machine* machine, const Fence* fence) noexcept nogil:
    cdef const Entry* entry
    if not fence.is_present:
        return True
    entry = tree_find(machine.tree, fence.key.data, <uint16_t>fence.key.length)
    return is_live(entry) and entry.create_revision == fence.create_revision

cdef ApplyOutcome _run(Machine* machine, const Record* record, ApplyResult* result) noexcept nogil:
    cdef Command* command = &machine.command
    cdef status_t status
    machine.index = record.index
    if command.kind == COMMAND_KEYS and (machine.feature_level >= LEVEL_OF_RANGE_COMPARES
                                         or not _compares_ranges(command)):
        status = transaction_begin(&machine.transaction, command, &machine.plan, &machine.leases,
                                   machine.limits.value_bytes_max, record.index)
        machine.phase = PHASE_EVALUATE
        return _continue(machine, record, result) if status == OK else _conclude(machine, record, result, status)
    if command.kind == COMMAND_ZNODES and machine.feature_level >= LEVEL_OF_ZNODES:
        status = znodes_begin(machine, record.index, record.wall_ms)
        machine.phase = PHASE_ZNODES
        return _continue(machine, record, result) if status == OK else _conclude(machine, record, result, status)
    if command.kind == COMMAND_GROUPS and machine.feature_level >= machine_level_of(command):
        return _conclude(machine, record, result, groups_run(machine))
    if command.kind == COMMAND_TOPICS and machine.feature_level >= LEVEL_OF_TOPICS:
        return _conclude(machine, record, result, offsets_run(machine))
    if command.kind == COMMAND_RECORDS and machine.feature_level >= LEVEL_OF_RECORDS:
        return _conclude(machine, record, result, records_run(machine))
    if command.kind == COMMAND_LEASE_REVOKE:
        return _conclude(machine, record, result, _revoke(machine))
    if command.kind == COMMAND_LEASE_EXPIRE:
        return _conclude(machine, record, result, _expire_leases(machine))
    if command.kind == COMMAND_PROCESS_END and machine.feature_level >= LEVEL_OF_PROCESSES:
        return _conclude(machine, record, result, _end_process(machine))
    if command.kind == COMMAND_FEATURE_LEVEL and command.id > FORMAT_FEATURE_LEVEL_MAX:
        return _fatal(result, UNKNOWN_ENTRY)
    status = _run_plain(machine, record)
    return _fatal(result, status) if status == NO_MEMORY else _finish(machine, record, result, status)

# Commands that change no key.
cdef status_t _run_plain(Machine* machine, const Record* record) noexcept nogil:
    cdef Command* command = &machine.command
    if command.kind == COMMAND_LEASE_GRANT:
        return _grant(machine, record.index)
    if command.kind == COMMAND_LEASE_KEEP_ALIVE:
        return _keep_alive(machine)
    if command.kind == COMMAND_SESSION_OPEN:
        return _open_session(machine)
    if command.kind == COMMAND_SESSION_CLOSE:
        return _close_session(machine)
    if command.kind == COMMAND_SESSION_EXPIRE:
        return _expire_sessions(machine)
    if command.kind == COMMAND_COMPACT:
        return _compact(machine)
    if command.kind == COMMAND_FEATURE_LEVEL and command.id >= machine.feature_level:
        machine.feature_level = <uint32_t>command.id
        return OK
    if machine.feature_level >= LEVEL_OF_USER_MACHINES and command.kind in (COMMAND_USER, COMMAND_USER_DUMP):
        return _give_user(machine, record)
    if machine.feature_level >= LEVEL_OF_RIGHTS and command.kind == COMMAND_RIGHTS:
        return _change_rights(machine)
    return COMMAND_INVALID      # a lower level, or a command of a level that is not reached yet


# --- commands of leases, sessions and history -------------------------------------------------------------------------
cdef status_t _grant(Machine* machine, uint64_t index) noexcept nogil:
    cdef const Command* command = &machine.command
    cdef uint64_t id = command.id if command.id != 0 else leases_choose_id(&machine.leases, index)
    cdef status_t status = leases_grant(&machine.leases, id, command.ttl_ms,
                                        deadline_after(machine.lease_ms, command.ttl_ms), &command.data)
    if (status == OK and machine.rights.table != NULL and machine.speaker.user != NULL
            and not rights_own_lease(&machine.rights, id, machine.speaker.user.number)):
        return NO_MEMORY
    if status == OK and not _keep_for_speaker(machine, id, True):
        return NO_MEMORY
    return result_unsigned(&machine.transaction.body, id) if status == OK else status

# The lease ends with the process that opened the command's session, if it alone keeps it. A lease of which nobody knows
# yet who keeps it becomes the process's where is_first.
cdef bint _keep_for_speaker(Machine* machine, uint64_t lease, bint is_first) noexcept nogil:
    cdef const Process* speaker = processes_of_session(&machine.processes, machine.command.session)
    cdef const Process* keeper = processes_of_lease(&machine.processes, lease)
    if keeper == NULL:
        return speaker == NULL or not is_first or processes_name_lease(&machine.processes, lease, speaker)
    if speaker == NULL or speaker.member != keeper.member or speaker.boot != keeper.boot:
        processes_share_lease(&machine.processes, lease)
    return True

# A lease past its deadline lives until an entry expires it: a keep-alive that comes first renews it.
cdef status_t _keep_alive(Machine* machine) noexcept nogil:
    cdef const Command* command = &machine.command
    cdef Vec[uint8_t]* body = &machine.transaction.body
    cdef status_t status = result_array(body, <uint32_t>command.leases.size)
    cdef Lease* lease
    cdef size_t i
    for i in range(command.leases.size):
        lease = leases_find(&machine.leases, command.leases.data[i].lease)
        if lease != NULL and rights_has_token(&machine.rights, lease.due.id):
            lease = NULL        # nobody keeps a token alive
        if lease != NULL and lease_is_own(lease):
            lease = NULL        # nor what the machine granted
        if lease != NULL:
            mark(MARK_LEASE_RENEWED)
            leases_renew(&machine.leases, lease, machine.lease_ms)
            # Without a sequence: a node's own, for as long as it lives. A caller may renew a lease and leave it alone.
            if not _keep_for_speaker(machine, lease.due.id, command.sequence == 0):
                return NO_MEMORY
        if status == OK:
            status = result_unsigned(body, lease.ttl_ms if lease != NULL else 0)
    return status

cdef status_t _revoke(Machine* machine) noexcept nogil:
    cdef Lease* lease = leases_find(&machine.leases, machine.command.id)
    if lease == NULL:
        return LEASE_EXPIRED
    if lease_is_own(lease):
        return ZNODE_WRITE if lease.first.flags & ENTRY_ZNODE else GROUP_WRITE
    return _plan_end(machine, lease)

# The leader saw these deadlines pass; since then a keep-alive may have come. Leases that are no longer due, and those
# whose keys would make the entry too large, are left: the leader names them again.
cdef status_t _expire_leases(Machine* machine) noexcept nogil:
    cdef const LeaseItem* item
    cdef Lease* lease
    cdef uint64_t timer
    cdef status_t status = OK
    cdef size_t i
    for i in range(machine.command.leases.size):
        item = &machine.command.leases.data[i]
        lease = leases_find(&machine.leases, item.lease)
        if lease == NULL or lease.is_ending or not _is_due(lease.due.deadline_ms, item, machine.lease_ms):
            mark(MARK_RENEWED_BEFORE_EXPIRY)
            continue
        if znodes_keep_lease(lease):
            mark(MARK_ZNODE_KEPT_FOR_CHILDREN)
            leases_renew(&machine.leases, lease, machine.lease_ms)
            continue
        timer = groups_timer_size(lease)
        if (machine.plan.changes.size and machine.plan.changes.size + lease.key_count + lease.parent_count + timer
                > CHANGES_MAX):
            continue
        status = groups_timer(machine, lease) if timer else _plan_end(machine, lease)
        if status != OK:
            break
    return status

cdef inline bint _is_due(uint64_t deadline_ms, const LeaseItem* item, uint64_t lease_ms) noexcept nogil:
    return deadline_ms == item.deadline_ms and deadline_ms <= lease_ms

# All keys of the lease go with it, in one revision.
cdef status_t _plan_end(Machine* machine, Lease* lease) noexcept nogil:
    cdef Planned* planned = NULL
    cdef Bytes key
    cdef status_t status
    cdef size_t i
    machine.entries.clear()
    if not leases_keys(&machine.leases, lease, &machine.entries) or not machine.ending.push(lease):
        return NO_MEMORY
    lease.is_ending = True
    for i in range(machine.entries.size):
        key.data = entry_key(machine.entries.data[i])
        key.length = machine.entries.data[i].key_length
        if machine.entries.data[i].flags & ENTRY_ZNODE:
            status = znodes_plan_removed(machine, &key)
            if status != OK:
                return status
            continue
        if machine.entries.data[i].flags & ENTRY_MEMBER:
            status = groups_plan_removed(machine, &key)
            if status != OK:
                return status
            continue
        status = plan_touch(&machine.plan, &key, &planned)
        if status != OK:
            return status
        plan_delete(&machine.plan, planned)
    return OK

cdef status_t _open_session(Machine* machine) noexcept nogil:
    cdef const Command* command = &machine.command
    if command.member != 0 and machine.feature_level < LEVEL_OF_PROCESSES:
        return COMMAND_INVALID
    cdef status_t status = sessions_open(&machine.sessions, command.id, command.ttl_ms,
                                         min(command.window, machine.limits.session_window), machine.lease_ms)
    cdef Process process
    if status == OK and command.member != 0:
        process.member = command.member
        process.boot = command.boot
        if not processes_name_session(&machine.processes, command.id, &process):
            return NO_MEMORY
    return _own(machine, command.id) if status == OK else status

cdef status_t _close_session(Machine* machine) noexcept nogil:
    cdef Session* session = sessions_find(&machine.sessions, machine.command.id)
    if session == NULL:
        return SESSION_UNKNOWN
    return OK if _end_session(machine, session) else NO_MEMORY

cdef bint _end_session(Machine* machine, Session* session) noexcept nogil:
    rights_session_ended(&machine.rights, session.due.id)
    processes_session_ended(&machine.processes, session.due.id)
    return sessions_end(&machine.sessions, session)

cdef status_t _expire_sessions(Machine* machine) noexcept nogil:
    cdef const LeaseItem* item
    cdef Session* session
    cdef size_t i
    for i in range(machine.command.leases.size):
        item = &machine.command.leases.data[i]
        session = sessions_find(&machine.sessions, item.lease)
        if session == NULL or not _is_due(session.due.deadline_ms, item, machine.lease_ms):
            continue
        if not _end_session(machine, session):
            return NO_MEMORY
    return OK

# The process is gone: its sessions end, so that nothing that it still has on the way takes effect, and so do the leases
# that it alone kept. Leases whose keys would make the entry too large are left, and the answer says how many: then the
# process is named again.
cdef status_t _end_process(Machine* machine) noexcept nogil:
    cdef const Command* command = &machine.command
    cdef Vec[uint64_t]* ids = &machine.left_behind
    cdef Lease* lease
    cdef uint64_t left = 0
    cdef status_t status = OK
    cdef size_t i
    ids.clear()
    if not processes_sessions(&machine.processes, command.member, command.boot, ids):
        return NO_MEMORY
    for i in range(ids.size):
        mark(MARK_SESSION_OF_DEAD_PROCESS)
        if not _end_session(machine, sessions_find(&machine.sessions, ids.data[i])):
            return NO_MEMORY
    ids.clear()
    if not processes_leases(&machine.processes, command.member, command.boot, ids):
        return NO_MEMORY
    for i in range(ids.size):
        lease = leases_find(&machine.leases, ids.data[i])
        if (machine.plan.changes.size
                and machine.plan.changes.size + lease.key_count + lease.parent_count > CHANGES_MAX):
            left += 1
            continue
        mark(MARK_LEASE_OF_DEAD_PROCESS)
        status = _plan_end(machine, lease)
        if status != OK:
            return status
    return result_unsigned(&machine.transaction.body, left)

# A token comes with its lease and goes with it. The speaker may leave its own name out.
cdef status_t _change_rights(Machine* machine) noexcept nogil:
    cdef Command* command = &machine.command
    cdef status_t status = OK
    if command.id == RIGHTS_TOKEN_PUT:
        if command.name.length == 0 and machine.rights.table != NULL and machine.speaker.user != NULL:
            command.name.data = &machine.speaker.user.name[0]
            command.name.length = machine.speaker.user.name_length
        status = rights_check_token(&machine.rights, command)
        if status == OK:
            status = _grant_to_token(machine, <const TokenAsked*>command.data.data)
    if status == OK:
        status = rights_change(&machine.rights, command)
    while machine.rights.ended.size:
        _end_of_token(machine, machine.rights.ended.back())
        machine.rights.ended.pop()
    return status

# Nobody but an admin may use this lease: it counts as a node's.
cdef status_t _grant_to_token(Machine* machine, const TokenAsked* asked) noexcept nogil:
    cdef Bytes nothing
    cdef status_t status
    nothing.data = NULL
    nothing.length = 0
    status = leases_grant(&machine.leases, asked.id, asked.ttl_ms, deadline_after(machine.lease_ms, asked.ttl_ms),
                          &nothing)
    if status == OK and not rights_own_lease(&machine.rights, asked.id, OWNER_NODE):
        return NO_MEMORY
    return status

# An admin may have hung keys on its lease: they stay until its time is over.
cdef void _end_of_token(Machine* machine, uint64_t id) noexcept nogil:
    cdef Lease* lease = leases_find(&machine.leases, id)
    if lease != NULL and lease.key_count == 0:
        rights_lease_ended(&machine.rights, id)
        processes_lease_ended(&machine.processes, id)
        leases_end(&machine.leases, lease)

cdef status_t _compact(Machine* machine) noexcept nogil:
    cdef uint64_t floor = machine.command.id
    if floor > machine.revision:
        return FUTURE_REVISION
    if floor < machine.compacted:
        return COMPACTED
    mark(MARK_HISTORY_COMPACTED)
    machine.compacted = floor
    # Readers learn of the floor before the first version below it goes (see reads.pyx).
    store_release(&machine.readers_floor, floor)
    return OK


# --- user machines ----------------------------------------------------------------------------------------------------
# The answer of a command is its index, under which the copies know its result; of a part of a dump: how much is here.
cdef status_t _give_user(Machine* machine, const Record* record) noexcept nogil:
    cdef const Command* command = &machine.command
    cdef uint64_t answer = record.index
    cdef status_t status
    if command.data.length > machine.limits.value_bytes_max:
        return VALUE_TOO_LARGE
    if command.kind == COMMAND_USER:
        status = users_command(&machine.users, command, record)
    else:
        status = users_dump_part(&machine.users, command, &answer)
    return result_unsigned(&machine.transaction.body, answer) if status == OK else status


# --- changes of keys --------------------------------------------------------------------------------------------------
# One more slice of the entry under way.
cdef ApplyOutcome _continue(Machine* machine, const Record* record, ApplyResult* result) noexcept nogil:
    cdef bint done = False
    cdef status_t status
    if machine.phase == PHASE_MAKE:
        return _make(machine, record, result)
    if machine.phase == PHASE_ZNODES:
        status = znodes_step(machine, machine.limits.changes_per_slice, &done)
    else:
        status = transaction_step(&machine.transaction, machine.limits.changes_per_slice, &done)
    if status == OK and not done:
        return APPLY_MORE
    return _conclude(machine, record, result, status)

# The plan is whole, or the command is refused.
cdef ApplyOutcome _conclude(Machine* machine, const Record* record, ApplyResult* result,
                            status_t status) noexcept nogil:
    cdef uint32_t count
    if status == OK and machine.plan.znodes.size:
        status = znodes_settle(machine, record.index)
    if status == OK and machine.plan.groups:
        status = groups_settle(machine, record.index)
    if is_fatal(status):
        return _fatal(result, status)
    if status != OK:
        return _finish(machine, record, result, status)
    count = plan_changes(&machine.plan)
    if count > 0 and history_prepare(&machine.history, count, record.wall_ms) == NULL:
        return _fatal(result, NO_MEMORY)
    machine.phase = PHASE_MAKE
    return _make(machine, record, result)

cdef ApplyOutcome _make(Machine* machine, const Record* record, ApplyResult* result) noexcept nogil:
    cdef uint32_t end = <uint32_t>min(machine.plan.changes.size,
                                      <size_t>machine.plan.made + machine.limits.changes_per_slice)
    cdef Planned* planned
    cdef status_t status = OK
    while machine.plan.made < end:
        planned = &machine.plan.changes.data[machine.plan.made]
        if planned_is_change(planned):
            status = _change(machine, planned)
        if status != OK:
            return _fatal(result, status)
        machine.plan.made += 1
    if machine.plan.made < machine.plan.changes.size:
        return APPLY_MORE
    if machine.history.prepared != NULL:
        if machine.history.newest != machine.revision:
            return _fatal(result, broken(&machine.broken, BROKEN_HISTORY_ORDER, machine.history.newest,
                                         machine.revision))
        result.changed = machine.history.prepared.count
        machine.changes_unpublished += result.changed
        history_commit(&machine.history, machine.history.prepared)
        machine.revision += 1
    while machine.ending.size > 0:
        rights_lease_ended(&machine.rights, machine.ending.back().due.id)
        processes_lease_ended(&machine.processes, machine.ending.back().due.id)
        leases_end(&machine.leases, machine.ending.back())
        machine.ending.pop()
    if machine.rights.must_show and rights_leases_ended(&machine.rights) != OK:
        return _fatal(result, NO_MEMORY)
    return _finish(machine, record, result, OK)

cdef status_t _change(Machine* machine, const Planned* planned) noexcept nogil:
    cdef Step* step = machine.history.prepared
    cdef Entry* before = planned.before
    cdef const PlannedZnode* znode
    cdef Entry* entry
    cdef status_t status
    if planned.mod_revision != machine.history.newest + 1:
        return broken(&machine.broken, BROKEN_PLAN_REVISION, planned.mod_revision, machine.history.newest + 1)
    if planned.flags & ENTRY_ZNODE:
        znode = &machine.plan.znodes.data[planned.znode - 1]
        entry = tree_new_znode(
            machine.tree, &planned.key, &planned.value, &znode.acl, &znode.meta, planned.create_revision,
            planned.mod_revision, planned.version, planned.lease, planned.flags)
    else:
        entry = tree_new_entry(
            machine.tree, planned.key.data, <uint16_t>planned.key.length, planned.value.data, planned.value.length,
            planned.create_revision, planned.mod_revision, planned.version, planned.lease, planned.flags)
    if entry == NULL:
        return NO_MEMORY
    status = tree_put(machine.tree, entry)
    if status != OK:
        tree_free_entry(machine.tree, entry)
        return status
    step_changes(step)[step.count].after = entry
    step.count += 1
    return _move_attachment(machine, before, entry)

cdef status_t _move_attachment(Machine* machine, Entry* before, Entry* entry) noexcept nogil:
    cdef Lease* lease
    if before != NULL and before.lease != 0:
        lease = leases_find(&machine.leases, before.lease)
        if lease == NULL or lease.key_count == 0:
            return broken(&machine.broken, BROKEN_LEASE_KEYS, before.lease, 0)
        if not lease.is_ending:
            if machine.leases.attached.find(<uint64_t>before) == NULL:
                return broken(&machine.broken, BROKEN_LEASE_DETACHED, before.lease, before.mod_revision)
            leases_detach(&machine.leases, lease, before)
    if entry.lease == 0:
        return OK
    lease = leases_find(&machine.leases, entry.lease)
    if lease == NULL:
        return broken(&machine.broken, BROKEN_LEASE_KEYS, entry.lease, 0)
    return OK if leases_attach(&machine.leases, lease, entry) else NO_MEMORY


# --- results ----------------------------------------------------------------------------------------------------------
# The command is done or refused: its result is kept, for a retry must get it again.
cdef ApplyOutcome _finish(Machine* machine, const Record* record, ApplyResult* result, status_t status) noexcept nogil:
    cdef Session* session
    if not _encode(machine, status):
        return _fatal(result, NO_MEMORY)
    # result.session is the caller's ticket; the session itself may have ended by this very command.
    if machine.command.session != 0 and machine.command.sequence != 0:
        session = sessions_find(&machine.sessions, machine.command.session)
        if session != NULL and not session_keep(&machine.sessions, session, machine.command.sequence, machine.revision,
                                                machine.result.data, <uint32_t>machine.result.size):
            return _fatal(result, NO_MEMORY)
        if session != NULL and session.highest >= session.floor + session.window:
            return _fatal(result, broken(&machine.broken, BROKEN_SESSION_WINDOW, session.highest, session.floor))
    return _leave(machine, record, result, status)

# The command was not looked at: whatever sends it again gets the same answer, so nothing is kept.
cdef ApplyOutcome _answer(Machine* machine, const Record* record, ApplyResult* result, status_t status) noexcept nogil:
    if not _encode(machine, status):
        return _fatal(result, NO_MEMORY)
    return _leave(machine, record, result, status)

cdef bint _encode(Machine* machine, status_t status) noexcept nogil:
    cdef Vec[uint8_t]* out = &machine.result
    cdef Vec[uint8_t]* body = &machine.transaction.body
    out.clear()
    if result_begin(out, status, machine.revision) != OK:
        return False
    if (status == OK or status == ZNODE_REFUSED or status == GROUP_REFUSED) and body.size > 0:
        return out.append(body.data, body.size)
    if status == PERMISSION_DENIED:
        return _encode_denial(machine)
    # Which operation was refused, by its position in the order of the command.
    if status != OK and machine.phase == PHASE_EVALUATE:
        return result_unsigned(out, machine.transaction.refused) == OK
    return result_nil(out) == OK

# [right, start, end] as the command named them; an end of nil: the key `start` alone.
cdef bint _encode_denial(Machine* machine) noexcept nogil:
    cdef Vec[uint8_t]* out = &machine.result
    cdef const Denial* denial = &machine.denial
    if (result_array(out, 3) != OK or result_unsigned(out, denial.right) != OK
            or result_bytes(out, &denial.start) != OK):
        return False
    return result_nil(out) == OK if denial.is_key else result_bytes(out, &denial.end) == OK

cdef ApplyOutcome _leave(Machine* machine, const Record* record, ApplyResult* result, status_t status) noexcept nogil:
    machine.applied = record.index
    machine.phase = PHASE_IDLE
    result.status = status
    result.revision = machine.revision
    result.body = machine.result.data
    result.length = <uint32_t>machine.result.size
    return APPLY_DONE


# --- before an entry --------------------------------------------------------------------------------------------------
cdef bint _compares_ranges(const Command* command) noexcept nogil:
    cdef size_t i
    for i in range(command.compares.size):
        if command.compares.data[i].target & COMPARE_OF_ALL:
            return True
    return False


cdef uint64_t machine_level_of(const Command* command) noexcept nogil:
    if command.kind == COMMAND_KEYS and _compares_ranges(command):
        return LEVEL_OF_RANGE_COMPARES
    if command.kind == COMMAND_FEATURE_LEVEL:
        return command.id
    if command.kind == COMMAND_GROUPS:
        if groups_verb(&command.data) == GROUP_CONSUMER:
            return LEVEL_OF_CONSUMER_GROUPS
        return LEVEL_OF_JOIN_LEASES if command.ttl_ms != 0 else LEVEL_OF_GROUPS
    if command.kind == COMMAND_TOPICS:
        return LEVEL_OF_TOPICS
    if command.kind == COMMAND_RECORDS:
        return LEVEL_OF_RECORDS
    if command.kind == COMMAND_PROCESS_END or command.member != 0:
        return LEVEL_OF_PROCESSES
    if command.kind == COMMAND_RIGHTS or command.speaker != SPEAKER_NONE:
        return LEVEL_OF_ZNODES if command.kind == COMMAND_ZNODES else LEVEL_OF_RIGHTS
    if command.kind == COMMAND_ZNODES:
        return LEVEL_OF_ZNODES
    return LEVEL_OF_USER_MACHINES if command.kind in (COMMAND_USER, COMMAND_USER_DUMP) else 1


# --- after apply ------------------------------------------------------------------------------------------------------
cdef const Change* machine_changes(Machine* machine) noexcept nogil:
    return step_changes(history_step(&machine.history, machine.revision)) if machine.revision > 0 else NULL

# --- the leader's engine ----------------------------------------------------------------------------------------------
cdef uint32_t machine_due_leases(Machine* machine, uint64_t lease_ms, Vec[uint64_t]* leases, Vec[uint64_t]* deadlines,
                                 uint32_t most) noexcept nogil:
    return deadlines_due(&machine.leases.deadlines, lease_ms, leases, deadlines, most)

cdef uint32_t machine_due_sessions(Machine* machine, uint64_t lease_ms, Vec[uint64_t]* sessions,
                                   Vec[uint64_t]* deadlines, uint32_t most) noexcept nogil:
    return deadlines_due(&machine.sessions.deadlines, lease_ms, sessions, deadlines, most)

cdef bint machine_session_exists(Machine* machine, uint64_t session) noexcept nogil:
    return sessions_find(&machine.sessions, session) != NULL

cdef uint64_t machine_session_used(Machine* machine, uint64_t session) noexcept nogil:
    cdef const Session* found = sessions_find(&machine.sessions, session)
    return max(found.highest, found.floor - 1) if found != NULL else 0

cdef bint machine_session_has_process(Machine* machine, uint64_t session) noexcept nogil:
    return processes_of_session(&machine.processes, session) != NULL

cdef bint machine_process_is_known(const Machine* machine, uint64_t member, uint64_t boot) noexcept nogil:
    return processes_hold(&machine.processes, member, boot)

cdef bint machine_has_rights(const Machine* machine) noexcept nogil:
    return machine.rights.table != NULL

cdef bint machine_session_is_owned(Machine* machine, uint64_t session) noexcept nogil:
    return rights_session_owner(&machine.rights, session) == OWNER_NODE

cdef status_t machine_session_result(Machine* machine, uint64_t session, uint64_t sequence, const uint8_t** body,
                                     uint32_t* length, uint64_t* revision) noexcept nogil:
    cdef Session* found = sessions_find(&machine.sessions, session)
    cdef const Kept* kept = NULL
    if found == NULL:
        return SESSION_UNKNOWN
    cdef status_t status = session_lookup(found, sequence, &kept)
    if status == OK:
        body[0] = kept_body(kept)
        length[0] = kept.length
        revision[0] = kept.revision
    return status

cdef status_t machine_lease(Machine* machine, uint64_t lease, uint64_t* ttl_ms, uint64_t* deadline_ms,
                            uint32_t* key_count) noexcept nogil:
    cdef const Lease* found = leases_find(&machine.leases, lease)
    if found == NULL:
        return LEASE_EXPIRED
    ttl_ms[0] = found.ttl_ms
    deadline_ms[0] = found.due.deadline_ms
    key_count[0] = found.key_count
    return OK

cdef status_t machine_history(Machine* machine, uint64_t revision, const Change** changes, uint32_t* count,
                              uint64_t* wall_ms) noexcept nogil:
    cdef Step* step
    if revision <= machine.compacted:
        return COMPACTED
    if revision > machine.revision:
        return FUTURE_REVISION
    step = history_step(&machine.history, revision)
    changes[0] = step_changes(step)
    count[0] = step.count
    wall_ms[0] = step.wall_ms
    return OK
