"""Cores that are copied, settled and compared; copies.pxd says when and why.

Every container of raft/state, raft/log and raft/progress is named below, once where it is copied and once where it is
digested, or is empty in a core at rest (tests/core/test_copies.py compares the lists).
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy, memmove, memset

from raftmeta.native.chunks cimport Slice, chunk_drop, chunk_hold
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64
from raftmeta.raft.log cimport Log, log_record
from raftmeta.raft.progress cimport Progress, progress_init
from raftmeta.raft.ready cimport LEADER
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.state cimport Core, HeldMessage, in_force
from raftmeta.raft.types cimport MEMBERS_MAX, Membership, Message, Record, index_t, member_id_t
from raftmeta.status cimport NO_MEMORY, OK, status_t


# --- settle -----------------------------------------------------------------------------------------------------------
cdef void core_settle(Core* core) noexcept nogil:
    _settle_clock(core)
    _settle_writes(core)
    core.random = core.config.seed
    if core.role == LEADER:
        core.votes_granted = core.votes_refused = 0     # they have made it leader; the next candidacy counts anew
    else:
        _settle_leadership(core)


cdef void _settle_clock(Core* core) noexcept nogil:
    cdef uint64_t timeout_ticks = core.config.election_timeout_ticks
    cdef uint32_t i
    core.now = 2 * timeout_ticks
    core.leader_heard_tick = core.now - timeout_ticks
    core.election_tick = core.now + timeout_ticks
    core.heartbeat_tick = core.now + core.config.heartbeat_ticks
    core.waiting_until = core.transfer_tick = core.read_tick = core.repair_tick = 0
    core.lease_until = 0
    for i in range(core.rounds.size):
        core.rounds.at(i).sent_tick = core.now
    for i in range(in_force(core).count):
        core.progress[i].heard_tick = core.progress[i].catch_up_tick = core.now
        core.progress[i].waiting_until = core.progress[i].offered_tick = 0


# One write at a time is under way, so what was numbered before it vouches for nothing any more.
cdef void _settle_writes(Core* core) noexcept nogil:
    cdef uint64_t finished = core.write_id_last - (1 if core.write.id != 0 else 0)
    cdef size_t i
    core.write_id_last -= finished
    if core.write.id != 0:
        core.write.id -= finished
    for i in range(core.held.size):
        core.held.data[i].write_id -= finished
    _settle_held(core)


# A network may change the order of messages and repeat them; so those that wait are sorted, and each is there once.
cdef void _settle_held(Core* core) noexcept nogil:
    cdef HeldMessage moved
    cdef uint64_t order
    cdef size_t i, j, kept = 0
    for i in range(core.held.size):
        moved = core.held.data[i]
        j = kept
        order = _held_digest(&moved, NULL)
        while j > 0 and _held_digest(&core.held.data[j - 1], NULL) > order:
            j -= 1
        if j > 0 and _held_digest(&core.held.data[j - 1], NULL) == order:
            chunk_drop(moved.message.records.chunk)
            continue
        memmove(&core.held.data[j + 1], &core.held.data[j], (kept - j) * sizeof(HeldMessage))
        core.held.data[j] = moved
        kept += 1
    core.held.size = kept


# raft/election _become_leader begins all of this anew.
cdef void _settle_leadership(Core* core) noexcept nogil:
    cdef uint32_t i
    for i in range(in_force(core).count):
        progress_init(&core.progress[i], in_force(core).members[i].id, core.log.last, core.now)
    core.rounds.clear()
    core.round = core.round_confirmed = core.round_void = 0
    core.term_first = 0
    core.must_replicate = core.must_heartbeat = core.lease_is_off = False


# --- digest -----------------------------------------------------------------------------------------------------------
cdef inline void _put(uint64_t* digest, uint64_t word) noexcept nogil:
    digest[0] = hash64(digest[0], &word, sizeof(word))


# A member under the name that the caller gives it.
cdef inline uint64_t _named(const uint8_t* names, member_id_t id) noexcept nogil:
    return id if names == NULL else names[id]


# Positions of the members in the order of those names; without names as they stand.
cdef void _order(const Membership* membership, const uint8_t* names, uint8_t* positions) noexcept nogil:
    cdef uint32_t i, j
    for i in range(membership.count):
        j = i
        while names != NULL and j > 0 and (names[membership.members[positions[j - 1]].id]
                                           > names[membership.members[i].id]):
            positions[j] = positions[j - 1]
            j -= 1
        positions[j] = <uint8_t>i


cdef uint64_t core_digest(const Core* constant, const uint8_t* names) noexcept nogil:
    cdef Core* core = <Core*>constant
    cdef uint64_t digest = _named(names, core.config.id)
    _put(&digest, core.fatal)
    _put_disk(&digest, core, names)
    _put_log(&digest, &core.log)
    _put_role(&digest, core, names)
    _put_members(&digest, core, names)
    _put_waiting(&digest, core, names)
    return digest


cdef void _put_disk(uint64_t* digest, Core* core, const uint8_t* names) noexcept nogil:
    cdef size_t i
    _put(digest, core.hard.term)
    _put(digest, _named(names, core.hard.vote))
    _put(digest, core.hard.committed)
    _put(digest, core.is_hard_dirty)
    _put(digest, core.write_id_last)
    _put(digest, core.write.id)
    if core.write.id != 0:
        _put(digest, core.write.has_hard_state)
        _put(digest, core.write.hard_state.term)
        _put(digest, _named(names, core.write.hard_state.vote))
        _put(digest, core.write.hard_state.committed)
        _put(digest, core.write.first)
        _put(digest, core.write.last)
        _put(digest, core.write.repairs)
        _put(digest, core.write_last)
        for i in range(core.write_slices.size):
            _put_records(digest, &core.write_slices.data[i])
    for i in range(core.repaired.size):
        _put(digest, core.repaired.data[i])


cdef void _put_records(uint64_t* digest, const Slice* slice) noexcept nogil:
    cdef uint64_t at = 0
    cdef const Record* record
    while at < slice.length:
        record = <const Record*>(slice.data + at)
        _put(digest, record.chain)
        at += record_bytes(record.length)


# A chain hash covers the entry and all before it, so terms (spans) and bytes (runs) follow from the places.
cdef void _put_log(uint64_t* digest, Log* log) noexcept nogil:
    cdef index_t index = log.offset + 1
    cdef Record* record
    cdef size_t i
    _put(digest, log.compacted)
    _put(digest, log.compacted_term)
    _put(digest, log.snapshotted)
    _put(digest, log.applied)
    _put(digest, log.committed)
    _put(digest, log.last)
    _put(digest, log.persisted)
    _put(digest, log.staged)
    _put(digest, log.written)
    _put(digest, log.offset_chain)
    while index <= log.last:
        record = log_record(log, index)
        _put(digest, record.chain if record != NULL else 0)
        index += 1
    for i in range(log.damages.size):
        _put(digest, log.damages.data[i].chain)


cdef void _put_role(uint64_t* digest, Core* core, const uint8_t* names) noexcept nogil:
    cdef size_t i
    _put(digest, core.role)
    _put(digest, _named(names, core.leader))
    _put(digest, core.matched)
    _put(digest, core.was_led << 4 | core.is_early_campaign << 3 | core.is_transfer_campaign << 2
         | core.was_named << 1 | core.was_told_removed)
    _put(digest, core.term_first)
    _put(digest, core.must_replicate << 1 | core.must_heartbeat)
    _put(digest, core.round)
    _put(digest, core.round_confirmed)
    _put(digest, core.round_void)
    for i in range(core.rounds.size):
        _put(digest, core.rounds.at(i).number)
    _put(digest, core.lease_ms)
    _put(digest, core.lease_term)
    _put(digest, core.lease_is_off)
    _put(digest, _named(names, core.transferring))
    _put(digest, core.is_timeout_now_sent)
    _put(digest, core.free_bytes)


cdef void _put_members(uint64_t* digest, Core* core, const uint8_t* names) noexcept nogil:
    cdef uint8_t[MEMBERS_MAX] positions
    cdef Membership* membership
    cdef size_t i
    cdef uint32_t j, at
    for i in range(core.memberships.size):
        membership = &core.memberships.data[i]
        _put(digest, membership.index)
        _put(digest, membership.is_joint)
        _order(membership, names, positions)
        for j in range(membership.count):
            _put(digest, _named(names, membership.members[positions[j]].id))
            _put(digest, membership.members[positions[j]].roles)
    # Positions are now those of the membership in force, the last.
    for j in range(in_force(core).count):
        at = positions[j]
        _put(digest, _named(names, core.progress[at].id))
        _put(digest, (core.votes_granted >> at & 1) << 1 | (core.votes_refused >> at & 1))
        _put_progress(digest, &core.progress[at])


cdef void _put_progress(uint64_t* digest, Progress* progress) noexcept nogil:
    cdef size_t i
    _put(digest, progress.state)
    _put(digest, progress.match)
    _put(digest, progress.next)
    _put(digest, progress.is_probe_sent << 2 | progress.must_send_empty << 1 | progress.is_log_read)
    _put(digest, progress.snapshot_index)
    for i in range(progress.inflights.size):
        _put(digest, progress.inflights.at(i).last)
        _put(digest, progress.inflights.at(i).bytes)
    _put(digest, progress.was_heard << 2 | progress.was_offered << 1 | progress.is_caught_up)
    _put(digest, progress.round)
    _put(digest, progress.free_bytes)
    _put(digest, progress.commit_sent)
    _put(digest, progress.catch_up_index)


cdef void _put_waiting(uint64_t* digest, Core* core, const uint8_t* names) noexcept nogil:
    cdef uint64_t held = 0
    cdef size_t i
    for i in range(core.held.size):
        held += _held_digest(&core.held.data[i], names)     # in whichever order they stand
    _put(digest, held)
    for i in range(core.reads.size):
        _put(digest, core.reads.at(i).context)
        _put(digest, _named(names, core.reads.at(i).source))
        _put(digest, core.reads.at(i).index)
        _put(digest, core.reads.at(i).round)
    for i in range(core.connected.size):
        _put(digest, _named(names, core.connected.data[i]))
    for i in range(core.entries_wanted.size):
        _put(digest, _named(names, core.entries_wanted.data[i].source))
        _put(digest, core.entries_wanted.data[i].index)
    _put(digest, core.read_number)
    _put(digest, core.is_fetching)


cdef uint64_t _held_digest(const HeldMessage* held, const uint8_t* names) noexcept nogil:
    cdef const Message* message = &held.message
    cdef uint64_t digest = held.write_id
    _put(&digest, message.type << 16 | message.reject << 8 | message.flags)
    _put(&digest, _named(names, message.target))
    _put(&digest, message.term)
    _put(&digest, message.index)
    _put(&digest, message.log_term)
    _put(&digest, message.commit)
    _put(&digest, message.hint)
    _put(&digest, message.context)
    _put(&digest, message.lease_ms)
    return digest


# --- copy -------------------------------------------------------------------------------------------------------------
cdef status_t core_copy(const Core* constant, Core** made) noexcept nogil:
    cdef Core* source = <Core*>constant
    cdef Core* copy = <Core*>malloc(sizeof(Core))
    made[0] = copy
    if copy == NULL:
        return NO_MEMORY
    memcpy(copy, source, sizeof(Core))
    _let_go(copy)
    if _copy_log(copy, source) and _copy_members(copy, source) and _copy_waiting(copy, source):
        return OK
    return NO_MEMORY


# The copy owns nothing yet: every container is empty, and what is empty at rest stays so.
cdef void _let_go(Core* core) noexcept nogil:
    cdef uint32_t i
    for i in range(<uint32_t>MEMBERS_MAX):
        memset(&core.progress[i].inflights, 0, sizeof(core.progress[i].inflights))
    memset(&core.write_slices, 0, sizeof(core.write_slices))
    memset(&core.repaired, 0, sizeof(core.repaired))
    memset(&core.memberships, 0, sizeof(core.memberships))
    memset(&core.rounds, 0, sizeof(core.rounds))
    memset(&core.reads, 0, sizeof(core.reads))
    memset(&core.connected, 0, sizeof(core.connected))
    memset(&core.entries_wanted, 0, sizeof(core.entries_wanted))
    memset(&core.fetched, 0, sizeof(core.fetched))
    memset(&core.outbox, 0, sizeof(core.outbox))
    memset(&core.sent, 0, sizeof(core.sent))
    memset(&core.held, 0, sizeof(core.held))
    memset(&core.apply_slices, 0, sizeof(core.apply_slices))
    memset(&core.reads_ready, 0, sizeof(core.reads_ready))
    memset(&core.reads_given, 0, sizeof(core.reads_given))
    memset(&core.refusals, 0, sizeof(core.refusals))
    memset(&core.refusals_given, 0, sizeof(core.refusals_given))
    memset(&core.log_reads, 0, sizeof(core.log_reads))
    memset(&core.log_reads_given, 0, sizeof(core.log_reads_given))
    memset(&core.snapshots, 0, sizeof(core.snapshots))
    memset(&core.snapshots_given, 0, sizeof(core.snapshots_given))
    memset(&core.traces, 0, sizeof(core.traces))
    memset(&core.traces_given, 0, sizeof(core.traces_given))
    memset(&core.scratch, 0, sizeof(core.scratch))
    memset(&core.log.places, 0, sizeof(core.log.places))
    memset(&core.log.runs, 0, sizeof(core.log.runs))
    memset(&core.log.spans, 0, sizeof(core.log.spans))
    memset(&core.log.damages, 0, sizeof(core.log.damages))
    # New records begin a chunk of their own: behind the shared ones the other core writes.
    core.log.open = NULL
    memset(&core.log.spares, 0, sizeof(core.log.spares))
    core.log.must_start_run = True
    core.write.slices = NULL


cdef bint _copy_log(Core* copy, Core* source) noexcept nogil:
    cdef size_t i
    for i in range(source.log.places.size):
        if not copy.log.places.push(source.log.places.at(i)):
            return False
    for i in range(source.log.runs.size):
        if not copy.log.runs.push(source.log.runs.at(i)):
            return False
        chunk_hold(source.log.runs.at(i).chunk)
    for i in range(source.log.spans.size):
        if not copy.log.spans.push(source.log.spans.at(i)):
            return False
    return (copy.log.damages.append(source.log.damages.data, source.log.damages.size)
            and _copy_slices(&copy.write_slices, &source.write_slices, &copy.write.slices)
            and copy.repaired.append(source.repaired.data, source.repaired.size))


cdef bint _copy_slices(Vec[Slice]* copy, const Vec[Slice]* source, const Slice** shown) noexcept nogil:
    cdef size_t i
    if not copy.append(source.data, source.size):
        return False
    for i in range(source.size):
        chunk_hold(source.data[i].chunk)
    shown[0] = copy.data
    return True


cdef bint _copy_members(Core* copy, Core* source) noexcept nogil:
    cdef size_t bytes = source.memberships.size * sizeof(Membership)
    cdef size_t i
    cdef uint32_t j
    # As large as it is: room for eight memberships would be most of the copy.
    copy.memberships.data = <Membership*>malloc(bytes)
    if copy.memberships.data == NULL:
        return False
    memcpy(copy.memberships.data, source.memberships.data, bytes)
    copy.memberships.size = copy.memberships.capacity = source.memberships.size
    for j in range(<uint32_t>MEMBERS_MAX):
        for i in range(source.progress[j].inflights.size):
            if not copy.progress[j].inflights.push(source.progress[j].inflights.at(i)):
                return False
    return True


cdef bint _copy_waiting(Core* copy, Core* source) noexcept nogil:
    cdef size_t i
    for i in range(source.rounds.size):
        if not copy.rounds.push(source.rounds.at(i)):
            return False
    for i in range(source.reads.size):
        if not copy.reads.push(source.reads.at(i)):
            return False
    if not copy.held.append(source.held.data, source.held.size):
        return False
    for i in range(source.held.size):
        chunk_hold(source.held.data[i].message.records.chunk)
    return (copy.connected.append(source.connected.data, source.connected.size)
            and copy.entries_wanted.append(source.entries_wanted.data, source.entries_wanted.size))
