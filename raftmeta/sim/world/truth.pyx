"""The cluster's truth: the committed log, its leaders, its states; and the checks against it.

A check stands where its invariant could first become false: at the message that claims too much (I5, I6), at the first
commit of an entry (I4, I7), at the leader's first word (I1, I3), at a node's return (I8). So a bug falls at its first
wrong step and not only when a later crash happens to show it. Sources: docs/invariants.md, paper Figure 3.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta._core cimport LEADER, CoreStatus, core_membership, core_status
from raftmeta.engine.disk_jobs cimport JOB_BEGIN_LOG, JOB_LOAD, JOB_WRITE, DiskJob
from raftmeta.engine.state cimport ENGINE_RUNNING, OUTSTANDING_DONE, CommandQueue
from raftmeta.machine.machine cimport MachineStatus, machine_status
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64
from raftmeta.ports cimport FileName
from raftmeta.raft.log cimport log_chain, log_record, log_term
from raftmeta.raft.membership cimport membership_position, membership_voters_incoming, membership_voters_outgoing
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport (APPEND_RESPONSE, MESSAGE_REPAIRING, PRE_VOTE, PRE_VOTE_RESPONSE, VOTE,
                                  VOTE_RESPONSE, Membership, Message, Record, index_t, member_id_t, member_mask_t,
                                  term_t)
from raftmeta.sim.world.disk cimport SimFile, sim_disk_durable
from raftmeta.sim.world.leases cimport leases_check
from raftmeta.sim.world.memberships cimport memberships_check, memberships_committed, memberships_note
from raftmeta.sim.world.points cimport points_check, points_committed, points_note
from raftmeta.sim.world.processes cimport processes_check, processes_take, processes_wants
from raftmeta.sim.world.read_proofs cimport proofs_look
from raftmeta.sim.world.entries cimport entries_note
from raftmeta.sim.world.rights_model cimport rights_model_check, rights_model_take
from raftmeta.sim.world.znodes_check cimport znodes_check
from raftmeta.sim.world.groups_check cimport groups_check, groups_take
from raftmeta.sim.world.znodes_model cimport znodes_take
from raftmeta.sim.world.world_state cimport (VIOLATION_ACK_NOT_DURABLE, VIOLATION_COMMIT_NOT_DURABLE,
                                             VIOLATION_CUT_SILENTLY, VIOLATION_LEADER_INCOMPLETE,
                                             VIOLATION_LOG_MATCHING, VIOLATION_MEMBERSHIP, VIOLATION_NO_MEMORY,
                                             VIOLATION_NOT_COMMITTED, VIOLATION_NOT_MONOTONIC, VIOLATION_RECOVERY,
                                             VIOLATION_SNAPSHOT, VIOLATION_STATE_HASH, VIOLATION_STATE_MACHINE,
                                             VIOLATION_TERM_NOT_DURABLE, VIOLATION_TWO_LEADERS, VIOLATION_UNBOUNDED,
                                             SimDurable, SimNode, SimTruth, World, violate)
from raftmeta.status cimport OK
from raftmeta.storage.recovery cimport segment_name
from raftmeta.storage.wal cimport WalBatch
from raftmeta.storage.wal_state cimport Segment

cdef index_t ALL_ABOVE = <index_t>-1


cdef inline int popcount(member_mask_t mask) noexcept nogil:
    cdef int count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


cdef bint _grow(World* world, Vec[uint64_t]* items, size_t size) noexcept nogil:
    if items.size < size and not items.resize(size):
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
        return False
    return True


# --- leaders ----------------------------------------------------------------------------------------------------------
cdef void truth_leader(World* world, SimNode* node, term_t term) noexcept nogil:
    cdef uint32_t* known = world.truth.leaders.insert(term)
    cdef uint64_t chain = 0
    cdef index_t committed = world.truth.committed
    world.counts.elections += 1
    if known == NULL:
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
        return
    if known[0] != 0 and known[0] != node.number + 1:
        violate(world, VIOLATION_TWO_LEADERS, node.number, term, known[0] - 1)
    known[0] = node.number + 1
    # A candidate whose votes were late leads a term that is over: it need not have what later terms committed.
    while committed != 0 and world.truth.committed_in.data[committed] >= term:
        committed -= 1
    if committed == 0:
        return
    if not log_chain(&node.engine.core.log, committed, &chain) or chain != world.truth.chains.data[committed]:
        if log_term(&node.engine.core.log, committed) != world.truth.terms.data[committed]:
            violate(world, VIOLATION_LEADER_INCOMPLETE, node.number, term, committed)


# --- durable before said ----------------------------------------------------------------------------------------------
# Is everything up to the end of the log really on the medium? Looked up in the simulated disk, not believed.
cdef bint _is_synced(SimNode* node) noexcept nogil:
    cdef Segment* segment
    cdef FileName name
    cdef const Vec[uint8_t]* durable
    cdef SimFile* file
    cdef size_t i
    cdef uint64_t sector
    if node.wal.segments.size == 0:
        return False
    segment = &node.wal.segments.back()
    segment_name(segment.number, name.text)
    durable = sim_disk_durable(node.disk, name.text)
    if durable == NULL or durable.size < segment.end:
        return False
    for i in range(node.disk.files.size):
        file = &node.disk.files.data[i]
        if not file.in_use or &file.durable != durable:
            continue
        if file.lost_a_sync:
            return False
        for sector in range(file.dirty_first, file.dirty_end):
            if sector * node.disk.sector_bytes >= segment.end:
                break
            if sector < file.dirty.size and file.dirty.data[sector]:
                return False
    return True


# The damaged entries in [low, high] are there now, in whichever form, or gone from the log for good.
cdef void _forget_damage(SimDurable* durable, index_t low, index_t high) noexcept nogil:
    cdef size_t i, kept = 0
    for i in range(durable.damaged.size):
        if not low <= durable.damaged.data[i] <= high:
            durable.damaged.data[kept] = durable.damaged.data[i]
            kept += 1
    durable.damaged.size = kept


# An entry is durable on this node: its place in the node's table, and I2 against what is committed.
cdef void _note_record(World* world, SimNode* node, const Record* record) noexcept nogil:
    cdef SimDurable* durable = &node.durable
    if record.index <= world.truth.committed and world.truth.terms.data[record.index] == record.term:
        if world.truth.chains.data[record.index] != record.chain:
            violate(world, VIOLATION_LOG_MATCHING, node.number, record.index, record.term)
    memberships_note(world, record)
    if (world.config.has_rights or world.config.has_znodes or world.groups != NULL
            or processes_wants(record)):
        entries_note(world, record)
    points_note(world, record)
    _forget_damage(durable, record.index, record.index)
    if record.index <= durable.filed:
        return
    if not _grow(world, &durable.chains, record.index + 1) or not _grow(world, &durable.terms, record.index + 1):
        return
    durable.chains.data[record.index] = record.chain
    durable.terms.data[record.index] = record.term


cdef void _note_batch(World* world, SimNode* node, const WalBatch* batch) noexcept nogil:
    cdef uint32_t i, offset
    cdef const Record* record
    cdef index_t last = max(batch.last, node.durable.filed)
    cdef index_t committed = max(node.durable.hard.committed, batch.hard_state.committed)
    if batch.has_hard_state:
        node.durable.hard = batch.hard_state
    node.durable.hard.committed = committed     # the core said so with each write (I25)
    for i in range(batch.slice_count):
        offset = 0
        while offset < batch.slices[i].length:
            record = <const Record*>(batch.slices[i].data + offset)
            offset += <uint32_t>record_bytes(record.length)
            _note_record(world, node, record)
    if not batch.repairs and batch.first <= batch.last and node.durable.chains.size > last + 1:
        node.durable.chains.size = last + 1             # what stood above was superseded
        node.durable.terms.size = last + 1
        _forget_damage(&node.durable, last + 1, ALL_ABOVE)


# A sealed file at index is durable on this node: all entries up to it are, in that form.
cdef void _note_snapshot(World* world, SimNode* node, index_t index) noexcept nogil:
    cdef SimDurable* durable = &node.durable
    cdef index_t at
    if index > world.truth.committed:
        violate(world, VIOLATION_STATE_MACHINE, node.number, index, world.truth.committed)
        return
    if not _grow(world, &durable.chains, index + 1) or not _grow(world, &durable.terms, index + 1):
        return
    durable.filed = max(durable.filed, index)
    _forget_damage(durable, 0, index)
    for at in range(1, index + 1):
        durable.chains.data[at] = world.truth.chains.data[at]
        durable.terms.data[at] = world.truth.terms.data[at]


cdef void _note_snapshot_job(World* world, SimNode* node, const DiskJob* job) noexcept nogil:
    cdef index_t last
    if job.kind == JOB_LOAD and job.receiving.is_done:
        _note_snapshot(world, node, job.receiving.file.point.index)
    elif job.kind == JOB_BEGIN_LOG:
        last = max(job.point.index, node.durable.filed)
        node.durable.chains.size = min(node.durable.chains.size, last + 1)
        node.durable.terms.size = min(node.durable.terms.size, last + 1)
        _forget_damage(&node.durable, last + 1, ALL_ABOVE)


cdef void truth_durable(World* world, SimNode* node) noexcept nogil:
    cdef DiskJob* job = node.jobs_done
    # A disk that lies cannot be seen through: what it said counts until its process is gone (sim/world/faults).
    node.durable.is_whole = _is_synced(node) or (node.is_suspect and node.suspect_life == node.life)
    while job != NULL:
        if job.kind == JOB_WRITE and job.status == OK and node.durable.is_whole:
            _note_batch(world, node, &job.batch)
        elif job.status == OK:
            _note_snapshot_job(world, node, job)
        job = job.next


cdef void _check_acknowledgement(World* world, SimNode* node, const Message* message) noexcept nogil:
    cdef SimDurable* durable = &node.durable
    cdef uint64_t chain = 0
    if message.index == 0:
        return
    # It says that all entries up to this one are on its disk.
    if durable.damaged.size != 0 and durable.damaged.data[0] <= message.index:
        violate(world, VIOLATION_ACK_NOT_DURABLE, node.number, message.index, durable.damaged.data[0])
        return
    if message.flags & MESSAGE_REPAIRING:
        return
    if message.index >= durable.chains.size or durable.chains.data[message.index] == 0:
        violate(world, VIOLATION_ACK_NOT_DURABLE, node.number, message.index, durable.chains.size)
        return
    if log_chain(&node.engine.core.log, message.index, &chain) and chain != durable.chains.data[message.index]:
        violate(world, VIOLATION_ACK_NOT_DURABLE, node.number, message.index, chain)
    node.acked_index = message.index
    node.acked_chain = durable.chains.data[message.index]
    node.acked_term = message.term


# Its acknowledgements of an earlier term count no further than where a leader of a later one has it cut (paper
# 5.3): that leader's entries may be of terms before the cut ones', and a crash may leave but some of them.
cdef void truth_truncated(SimNode* node, term_t term, index_t first) noexcept nogil:
    cdef uint64_t chain = 0
    if node.acked_index < first or term <= node.acked_term:
        return
    node.acked_index = first - 1 if log_chain(&node.engine.core.log, first - 1, &chain) else 0
    node.acked_chain = chain


# I6: an incarnation votes for one candidate in a term, over all its lives (paper 5.2).
cdef void _check_vote(World* world, SimNode* node, member_id_t candidate, term_t term) noexcept nogil:
    cdef uint64_t[2] ballot
    cdef uint64_t* known
    ballot[0] = node.id
    ballot[1] = term
    known = world.truth.votes.insert(hash64(0, ballot, sizeof(ballot)))
    if known == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    if known[0] != 0 and known[0] != candidate:
        violate(world, VIOLATION_TERM_NOT_DURABLE, node.number, term, known[0])
    known[0] = candidate


cdef void truth_message(World* world, SimNode* node, const Message* message) noexcept nogil:
    if message.type == VOTE:
        _check_vote(world, node, node.id, message.term)
    elif message.type == VOTE_RESPONSE and not message.reject:
        _check_vote(world, node, message.target, message.term)
    if message.type != PRE_VOTE and message.type != PRE_VOTE_RESPONSE and message.term > node.durable.hard.term:
        violate(world, VIOLATION_TERM_NOT_DURABLE, node.number, message.term, node.durable.hard.term)
    if message.type == VOTE_RESPONSE and not message.reject and node.durable.hard.vote != message.target:
        violate(world, VIOLATION_TERM_NOT_DURABLE, node.number, message.term, node.durable.hard.vote)
    if message.type == APPEND_RESPONSE and not message.reject:
        _check_acknowledgement(world, node, message)


# --- the committed log ------------------------------------------------------------------------------------------------
cdef bint _holds(const SimDurable* durable, index_t index, uint64_t chain) noexcept nogil:
    return index < durable.chains.size and durable.chains.data[index] == chain


# I7: members of the membership in force whose disks hold the entry, or held it until they were wiped.
cdef bint _is_quorum_durable(World* world, const Membership* membership, index_t index, uint64_t chain) noexcept nogil:
    cdef member_mask_t holders = 0
    cdef member_mask_t incoming = membership_voters_incoming(membership)
    cdef member_mask_t outgoing = membership_voters_outgoing(membership)
    cdef uint32_t number
    cdef int position
    for number in range(world.config.nodes):
        for position in range(membership.count):
            if (_holds(&world.nodes[number].durable, index, chain)
                    and world.nodes[number].id == membership.members[position].id):
                holders |= <member_mask_t>1 << position
            if (_holds(&world.nodes[number].former, index, chain)
                    and world.nodes[number].former_id == membership.members[position].id):
                holders |= <member_mask_t>1 << position
    return _is_majority(holders, incoming) and (outgoing == 0 or _is_majority(holders, outgoing))


# Under a membership of this turn: behind the commit a leader may have appended the next one already.
cdef bint _was_quorum_durable(World* world, SimNode* node, index_t index, uint64_t chain) noexcept nogil:
    cdef const Vec[Membership]* known = &node.engine.core.memberships
    cdef size_t i
    for i in range(known.size):
        if _is_quorum_durable(world, &known.data[i], index, chain):
            return True
    return False


cdef bint _is_majority(member_mask_t holders, member_mask_t voters) noexcept nogil:
    return 2 * popcount(holders & voters) > popcount(voters)


# I25: what a node knew as committed is never another entry later, whoever's folder was put back but its own.
cdef void _check_known(World* world, SimNode* node, index_t index, uint64_t chain) noexcept nogil:
    if not _grow(world, &node.known, index + 1):
        return
    if node.known.data[index] != 0 and chain != 0 and node.known.data[index] != chain:
        violate(world, VIOLATION_CUT_SILENTLY, node.number, index, chain)
    node.known.data[index] = chain


cdef void _note_committed(World* world, SimNode* node, index_t index) noexcept nogil:
    cdef SimTruth* truth = &world.truth
    cdef uint64_t chain = 0
    cdef term_t term = log_term(&node.engine.core.log, index)
    if not log_chain(&node.engine.core.log, index, &chain):
        # Applied in this turn, it may have left memory: then it is on this node's disk. A file's entries were noted
        # with the chain that is true for all; once a folder was put back there is no such chain.
        if index < node.durable.chains.size and (world.counts.put_backs == 0 or index > node.durable.filed):
            chain = node.durable.chains.data[index]
    _check_known(world, node, index, chain)
    if chain == 0:
        return
    if index <= truth.committed:
        # Of a damaged record only the chain is known; the term is in it.
        if truth.chains.data[index] != chain or (term != 0 and truth.terms.data[index] != term):
            violate(world, VIOLATION_STATE_MACHINE, node.number, index, term)
        return
    if not (_grow(world, &truth.chains, index + 1) and _grow(world, &truth.terms, index + 1)
            and _grow(world, &truth.committed_in, index + 1)):
        return
    truth.chains.data[index] = chain
    truth.terms.data[index] = term
    truth.committed_in.data[index] = node.engine.core.hard.term
    truth.committed = index
    memberships_committed(world, index)
    processes_take(world, node, index, chain)
    if world.config.has_rights:
        rights_model_take(world, index, chain)
    if world.config.has_znodes:
        znodes_take(world, index, chain)
    if world.groups != NULL:
        groups_take(world, node, index, chain)
    points_committed(world, index)
    if not _was_quorum_durable(world, node, index, chain):
        violate(world, VIOLATION_COMMIT_NOT_DURABLE, node.number, index, term)


cdef void _check_state_hash(World* world, SimNode* node) noexcept nogil:
    cdef MachineStatus machine
    cdef SimTruth* truth = &world.truth
    machine_status(node.engine.machine, &machine)
    if not _grow(world, &truth.state_hashes, node.engine.applying.applied + 1):
        return
    if not _grow(world, &truth.revisions, node.engine.applying.applied + 1):
        return
    if truth.state_hashes.data[node.engine.applying.applied] == 0:
        truth.state_hashes.data[node.engine.applying.applied] = machine.state_hash.low | 1
        truth.revisions.data[node.engine.applying.applied] = machine.revision
    elif (truth.state_hashes.data[node.engine.applying.applied] != machine.state_hash.low | 1
          or truth.revisions.data[node.engine.applying.applied] != machine.revision):
        violate(world, VIOLATION_STATE_HASH, node.number, node.engine.applying.applied, machine.revision)


cdef void truth_point(World* world, SimNode* node, index_t index, uint64_t hash_low) noexcept nogil:
    cdef SimTruth* truth = &world.truth
    if not _grow(world, &truth.state_hashes, index + 1) or not _grow(world, &truth.revisions, index + 1):
        return
    if truth.state_hashes.data[index] != 0 and truth.state_hashes.data[index] != hash_low | 1:
        violate(world, VIOLATION_STATE_HASH, node.number, index, hash_low)


cdef void truth_file(World* world, SimNode* node, index_t index, uint64_t hash_low) noexcept nogil:
    cdef uint64_t* known = world.truth.files.insert(index)
    if known == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    if known[0] != 0 and known[0] != hash_low | 1:
        violate(world, VIOLATION_SNAPSHOT, node.number, index, hash_low)
    known[0] = hash_low | 1


# Commands without an answer; counted only when there may be too many. Answered ones keep the place of a number.
cdef size_t _waiting(CommandQueue* queue, size_t cap) noexcept nogil:
    cdef size_t i
    cdef size_t count = 0
    if queue.commands.size <= cap:
        return 0
    for i in range(queue.commands.size):
        count += queue.commands.at(i).state != OUTSTANDING_DONE
    return count


# I21: commands that wait, and what is under way to each member; one APPEND may lie above the limit.
cdef void _check_bounds(World* world, SimNode* node, const CoreStatus* status) noexcept nogil:
    cdef const Core* core = node.engine.core
    cdef size_t cap = node.engine.config.outstanding_max
    cdef uint32_t i
    if _waiting(&node.engine.calls.own, cap) > cap or _waiting(&node.engine.calls.clients, cap) > cap:
        violate(world, VIOLATION_UNBOUNDED, node.number, node.engine.calls.own.commands.size, cap)
    if status.role != LEADER:
        return
    for i in range(core_membership(core).count):
        if core.progress[i].inflight_bytes > core.config.inflight_bytes_max + core.config.append_bytes_max:
            violate(world, VIOLATION_UNBOUNDED, node.number, core.progress[i].inflight_bytes,
                    core.config.inflight_bytes_max)


cdef void truth_after_run(World* world, SimNode* node) noexcept nogil:
    cdef CoreStatus status
    cdef index_t index
    if node.engine.state != ENGINE_RUNNING:
        return
    core_status(node.engine.core, &status)
    if (status.committed < node.committed or node.engine.applying.applied < node.applied or status.term < node.term
            or status.committed > status.last or node.engine.applying.applied > status.committed):
        violate(world, VIOLATION_NOT_MONOTONIC, node.number, status.committed, node.engine.applying.applied)
    for index in range(node.committed + 1, status.committed + 1):
        _note_committed(world, node, index)
    if node.engine.core.memberships.size > 1 or status.membership_index > world.truth.membership_index:
        _check_memberships(world, node, &status)
    memberships_check(world, node, status.committed, status.is_repairing)
    proofs_look(world, node)
    node.committed = status.committed
    node.term = status.term
    if world.truth.answered_index > world.truth.committed:
        violate(world, VIOLATION_NOT_COMMITTED, node.number, world.truth.answered_index, world.truth.committed)
    _check_bounds(world, node, &status)
    if node.engine.applying.applied != node.applied and not node.engine.applying.is_partial:
        node.applied = node.engine.applying.applied
        _check_state_hash(world, node)
        points_check(world, node)
        leases_check(world, node)
        processes_check(world, node)
        if world.config.has_rights:
            rights_model_check(world, node)
        if world.config.has_znodes:
            znodes_check(world, node)
        if world.groups != NULL:
            groups_check(world, node)


# --- membership -------------------------------------------------------------------------------------------------------
# Could those of `names` (by position) whose bits are set decide alone under `membership`?
cdef bint _decides(const Membership* membership, member_mask_t mask, const Membership* names) noexcept nogil:
    cdef member_mask_t there = 0
    cdef int position, place
    for position in range(names.count):
        place = membership_position(membership, names.members[position].id)
        if mask >> position & 1 and place >= 0:
            there |= <member_mask_t>1 << place
    return (_is_majority(there, membership_voters_incoming(membership))
            and (not membership.is_joint or _is_majority(there, membership_voters_outgoing(membership))))


# Does every quorum of one share a member with every quorum of the other? By trying all subsets.
cdef bint _intersect(const Membership* before, const Membership* after) noexcept nogil:
    cdef Membership names = before[0]
    cdef member_mask_t all, mask
    cdef int position
    for position in range(after.count):
        if membership_position(before, after.members[position].id) < 0:
            names.members[names.count] = after.members[position]
            names.count += 1
    all = (<member_mask_t>1 << names.count) - 1
    for mask in range(all + 1):
        if _decides(before, mask, &names) and _decides(after, all & ~mask, &names):
            return False
    return True


# Were these memberships compared already? Another one at the same index is of another term.
cdef bint _are_new(SimNode* node, const CoreStatus* status) noexcept nogil:
    cdef const Vec[Membership]* known = &node.engine.core.memberships
    cdef uint64_t[5] names
    cdef uint64_t hash
    names[0] = node.life
    names[1] = status.term
    names[2] = known.data[0].index
    names[3] = known.data[known.size - 1].index
    names[4] = known.size + (<uint64_t>status.is_repairing << 32)
    hash = hash64(0, names, sizeof(names))
    if hash == node.memberships_seen:
        return False
    node.memberships_seen = hash
    return True


# I10: each membership after the one before it; a leader has one open change at most (thesis 4.1).
#
# While a member repairs its log, one between two may be among what it cannot read.
cdef void _check_memberships(World* world, SimNode* node, const CoreStatus* status) noexcept nogil:
    cdef Vec[Membership]* known = &node.engine.core.memberships
    cdef bint is_new = _are_new(node, status)
    cdef uint32_t open = 0
    cdef size_t i
    for i in range(known.size):
        open += known.data[i].index > status.committed
        if i > 0 and is_new and not status.is_repairing and not _intersect(&known.data[i - 1], &known.data[i]):
            violate(world, VIOLATION_MEMBERSHIP, node.number, known.data[i - 1].index, known.data[i].index)
    # Before its own-term commit a leader need not know what is committed.
    if open > 1 and status.role == LEADER and status.is_ready_to_read:
        violate(world, VIOLATION_MEMBERSHIP, node.number, open, status.committed)
    if known.data[0].index <= status.committed and known.data[0].index > world.truth.membership_index:
        world.truth.membership_index = known.data[0].index
        world.counts.memberships += 1


# --- a node comes back ------------------------------------------------------------------------------------------------
# I8: what this node vouched for is there, unless its durable log went on in a later term and superseded it.
cdef void truth_recovered(World* world, SimNode* node) noexcept nogil:
    cdef CoreStatus status
    cdef index_t index
    cdef uint64_t chain = 0
    cdef Record* record
    core_status(node.engine.core, &status)
    node.durable.chains.clear()
    node.durable.terms.clear()
    node.durable.damaged.clear()
    node.durable.filed = 0
    node.durable.hard.term = status.term
    node.durable.hard.vote = status.vote
    node.durable.is_whole = True
    if node.engine.applying.applied != 0:
        _note_snapshot(world, node, node.engine.applying.applied)
    _note_left(world, node)
    for index in range(node.engine.core.log.offset + 1, status.last + 1):
        record = log_record(&node.engine.core.log, index)
        if record != NULL:
            _note_record(world, node, record)
        elif log_chain(&node.engine.core.log, index, &chain):
            _note_damaged(world, node, index, chain)
    if node.acked_index == 0 or status.is_repairing:
        return
    if not log_chain(&node.engine.core.log, node.acked_index, &chain) or chain != node.acked_chain:
        if status.last_term <= node.acked_term and log_record(&node.engine.core.log, node.acked_index) != NULL:
            violate(world, VIOLATION_RECOVERY, node.number, node.acked_index, status.last)
        elif status.last < node.acked_index and status.last_term <= node.acked_term:
            violate(world, VIOLATION_RECOVERY, node.number, node.acked_index, status.last)


# Entries that were recovered and left memory are committed and whole: the last one's hash stands for all before.
cdef void _note_left(World* world, SimNode* node) noexcept nogil:
    cdef index_t last = node.engine.core.log.offset
    cdef index_t at
    cdef uint64_t chain = 0
    if last <= node.engine.applying.applied:
        return
    if (last > world.truth.committed or not log_chain(&node.engine.core.log, last, &chain)
            or chain != world.truth.chains.data[last]):
        violate(world, VIOLATION_LOG_MATCHING, node.number, last, world.truth.committed)
        return
    if not _grow(world, &node.durable.chains, last + 1) or not _grow(world, &node.durable.terms, last + 1):
        return
    for at in range(node.engine.applying.applied + 1, last + 1):
        node.durable.chains.data[at] = world.truth.chains.data[at]
        node.durable.terms.data[at] = world.truth.terms.data[at]


# Unreadable, but known by its hash: what was said of it stands, as the node votes only when it has it again. Until
# then it may not be said again.
cdef void _note_damaged(World* world, SimNode* node, index_t index, uint64_t chain) noexcept nogil:
    if _grow(world, &node.durable.chains, index + 1):
        node.durable.chains.data[index] = chain
    if index > node.durable.filed and not node.durable.damaged.push(index):
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)


cdef void truth_compare_all(World* world) noexcept nogil:
    cdef uint32_t number
    cdef index_t index
    cdef SimNode* node
    cdef uint64_t chain = 0
    for number in range(world.config.nodes):
        node = &world.nodes[number]
        if not node.is_up or node.engine.state != ENGINE_RUNNING:
            continue
        for index in range(1, min(node.committed, world.truth.committed) + 1):
            if log_chain(&node.engine.core.log, index, &chain) and chain != world.truth.chains.data[index]:
                violate(world, VIOLATION_STATE_MACHINE, number, index, chain)
                return
