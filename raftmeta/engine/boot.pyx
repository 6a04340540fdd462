"""From a folder to a running engine.

It decides whether this folder may run (identity), what of its log is still there (storage/wal says), and when the
core may start. It must never send a message, or start a core whose state is not on the disk.

Order of an opening, and why:
    1. the identity file is read: whose folder is it?
    2. the log is read, then settled: nothing is written before every file is known to be ours and of a known format,
    3. the identity file says the next boot number, or another incarnation where the log is lost,
    4. whose log begins, and the lost one goes,
    5. or the newest whole copy of the state is loaded, and the log goes on from there. If the log does not know that
       point, the node died while it installed a snapshot: what was begun is finished, the log begins behind it.
The checkpoint is loaded while another thread does step 2, where there is one (BesidePort): loading writes nothing, and
what was loaded counts for nothing before the log was found to be ours and whole.
A crash between 3 and 4 leaves the log of the incarnation before (Identity.former), which counts for nothing.

Order at the founding, and why:
    1. the log begins, with the founding membership in its first segment,
    2. the identity file says FOUNDED.
A crash between the two finds ACCEPTED and begins again. The other order could leave a FOUNDED folder without a log,
which must mean that the log was lost, and such a node must never vote.

A node that joins a living cluster (JOINING) begins an empty log without a membership; what the leader sends names it.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta._core cimport (PEER_CONNECTED, core_compacted, core_create, core_membership, core_peer_event,
                             core_restore_damaged, core_restore_membership, core_restore_records, core_restored,
                             core_set_clocks, core_set_free_bytes, core_set_time, core_status)
from raftmeta.engine.applier cimport applier_begin
from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.peers cimport peers_follow_membership
from raftmeta.engine.snapshots.restore cimport (Restored, restore_checkpoint, restore_forget, restore_look,
                                                restore_state, restored_continues, restored_release)
from raftmeta.engine.snapshots.state cimport Snapshots
from raftmeta.engine.state cimport (BOOT_IDENTITY, BOOT_LOG, BOOT_STATE, EVENT_FOUNDED, EVENT_JOINED, EVENT_LOG_OPENED,
                                    ENGINE_GENESIS, ENGINE_RUNNING, Engine, Link)
from raftmeta.machine.machine cimport MachineStatus, machine_create, machine_status
from raftmeta.machine.watches cimport hub_create, hub_show
from raftmeta.native.chunks cimport Chunk, Slice
from raftmeta.raft.genesis cimport FOUNDED, JOINING, GenesisRecord, genesis_add_peer, genesis_init, genesis_persisted
from raftmeta.raft.membership cimport membership_decode, membership_encode
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport MEMBERS_MAX, HardState, Membership, Record, SnapshotPoint, index_t
from raftmeta.status cimport (CORRUPT, DISK_FAILED, FOREIGN_NODE, NEWER_FORMAT, NO_KEY, NO_MEMORY, NO_SPACE, OK,
                              is_fatal, status_t)
from raftmeta.storage.identity cimport Identity, identity_count_boot, identity_open, identity_renew
from raftmeta.storage.wal cimport (WAL_BLANK, WAL_TAIL_LOST, WAL_VOID, WalOpened, wal_begin, wal_free_bytes, wal_open,
                                   wal_open_done, wal_used_bytes)
from raftmeta.storage.wal_state cimport Wal
from raftmeta.wire.commands cimport command_init

cdef enum:
    TUNE_COPIED_BYTES = 256 * 1024      # records that are copied at once; the least chunk of the log
    IDENTITY_RETRY_TICKS = 20   # between two tries to write the genesis record on a full disk


cdef status_t _begin_genesis(Engine* engine, const GenesisRecord* record) noexcept nogil:
    cdef int i
    cdef Link* link
    cdef status_t status
    genesis_init(&engine.genesis, record, engine.id, engine.random.next(engine.random.self),
                 engine.random.next(engine.random.self))
    engine.genesis.is_observer = engine.config.core.is_observer
    for i in range(MEMBERS_MAX):
        link = &engine.links.table[i]
        if link.is_used and link.is_initial:
            status = genesis_add_peer(&engine.genesis, link.name, link.name_length, link.address, link.address_length,
                                      link.is_self)
            if status != OK:
                return status
    return OK


cdef status_t _create_parts(Engine* engine) noexcept nogil:
    engine.config.core.id = engine.id
    engine.config.core.seed = engine.random.next(engine.random.self)
    engine.core = core_create(&engine.config.core)
    if engine.machine == NULL:      # else a copy of the state was loaded
        engine.machine = machine_create(&engine.config.machine)
    engine.hub = hub_create(engine.config.watch_queue_bytes_max)
    if engine.core == NULL or engine.machine == NULL or engine.hub == NULL:
        return NO_MEMORY
    core_set_time(engine.core, engine.clock.now_ns(engine.clock.self))
    return OK


# The core is restored: follow its membership and greet the links that are up already.
cdef status_t _start(Engine* engine) noexcept nogil:
    cdef status_t status
    cdef int i
    cdef MachineStatus machine
    machine_status(engine.machine, &machine)
    hub_show(engine.hub, machine.revision)
    core_status(engine.core, &engine.core_status)
    engine.room.membership_logged = core_membership(engine.core).index
    engine.links.membership_seen = engine.links.membership_count = 1
    status = peers_follow_membership(engine, core_membership(engine.core))
    engine.state = ENGINE_RUNNING
    for i in range(MEMBERS_MAX):
        if status == OK and engine.links.table[i].is_up:
            status = core_peer_event(engine.core, PEER_CONNECTED, engine.links.table[i].id)
    return status


# --- a folder that has a log ------------------------------------------------------------------------------------------
# The records behind index.
cdef Slice _behind(const Slice* slice, index_t index) noexcept nogil:
    cdef Slice rest = slice[0]
    cdef uint32_t length
    while rest.length != 0 and (<const Record*>rest.data).index <= index:
        length = <uint32_t>record_bytes((<const Record*>rest.data).length)
        rest.data += length
        rest.length -= length
    return rest


# Take whole records off the front of slice: until they have `wanted` bytes, one at least, then none beyond
# bytes_max.
cdef Slice _first_of(Slice* slice, uint64_t wanted, uint32_t bytes_max) noexcept nogil:
    cdef Slice taken = slice[0]
    cdef uint32_t length = 0
    cdef uint64_t record
    while length < slice.length and length < wanted:
        record = record_bytes((<const Record*>(slice.data + length)).length)
        if length != 0 and length + record > bytes_max:
            break
        length += <uint32_t>record
    taken.length = length
    slice.data += length
    slice.length -= length
    return taken


# Whether the records that stay in memory, bytes_max of the log's last, are most of the image in which this slice
# is the first.
cdef bint _stays_in_image(const WalOpened* opened, size_t slice, uint64_t bytes_max) noexcept nogil:
    cdef Chunk* image = opened.slices[slice].chunk
    cdef uint64_t live = 0
    cdef uint64_t following = 0
    while slice < opened.slice_count:
        if opened.slices[slice].chunk == image:
            live += opened.slices[slice].length
        following += opened.slices[slice].length
        slice += 1
    return following <= bytes_max and live * 4 >= <uint64_t>image.used * 3


# The records of a slice with `following` bytes of others behind them. Records that stay in memory are copied unless
# they are shared, so that the image of their segment can go.
cdef status_t _restore_slice(Engine* engine, Slice rest, uint64_t following, bint is_shared) noexcept nogil:
    cdef uint64_t kept = engine.config.core.log_memory_bytes_max
    cdef Slice part
    cdef status_t status = OK
    kept = kept - following if kept > following else 0
    if is_shared or kept == 0:
        return core_restore_records(engine.core, &rest)
    if kept < rest.length:
        part = _first_of(&rest, rest.length - kept, rest.length)
        status = core_restore_records(engine.core, &part)
    while status == OK and rest.length != 0:
        part = _first_of(&rest, rest.length, TUNE_COPIED_BYTES)
        part.chunk = NULL
        status = core_restore_records(engine.core, &part)
    return status


# Live slices and damaged records behind `first`, merged by index.
cdef status_t _restore_records(Engine* engine, const WalOpened* opened, index_t first) noexcept nogil:
    cdef Chunk* image = NULL
    cdef bint is_shared = False
    cdef uint64_t following = 0
    cdef size_t slice = 0
    cdef size_t damage = 0
    cdef status_t status = OK
    cdef Slice rest
    cdef index_t next
    for slice in range(opened.slice_count):
        following += opened.slices[slice].length
    slice = 0
    while status == OK and (slice < opened.slice_count or damage < opened.damaged_count):
        next = (<const Record*>opened.slices[slice].data).index if slice < opened.slice_count else <index_t>0
        if damage < opened.damaged_count and (next == 0 or opened.damaged[damage].index < next):
            if opened.damaged[damage].index > first:
                status = core_restore_damaged(engine.core, opened.damaged[damage].index, opened.damaged[damage].chain)
            damage += 1
        else:
            if image != opened.slices[slice].chunk:
                image = opened.slices[slice].chunk
                is_shared = _stays_in_image(opened, slice, engine.config.core.log_memory_bytes_max)
            following -= opened.slices[slice].length
            rest = _behind(&opened.slices[slice], first)
            if rest.length != 0:
                status = _restore_slice(engine, rest, following, is_shared)
            slice += 1
    return status


# From where the core is to know the log: as far back as it is there, for members that are behind; but nothing that
# the copy of the state makes up for needs mending.
cdef SnapshotPoint _log_begin(const WalOpened* opened, const Restored* restored) noexcept nogil:
    cdef size_t i
    for i in range(opened.damaged_count):
        if opened.damaged[i].index <= restored.point.index:
            return restored.point
    return opened.start


# In force at the beginning of the log. A membership that the copy of the state has from before is that one; later
# ones stand in the log, and the first that is committed replaces whatever is given here (raft/membership_change).
cdef status_t _membership_at(const WalOpened* opened, const Restored* restored, index_t index,
                             Membership* membership) noexcept nogil:
    cdef const uint8_t* encoded = opened.membership
    cdef uint32_t length = opened.membership_length
    cdef index_t membership_index = opened.membership_index
    memset(membership, 0, sizeof(Membership))
    if restored.point.index != 0 and restored.membership_index <= index:
        encoded = restored.membership.data
        length = <uint32_t>restored.membership.size
        membership_index = restored.membership_index
    if length != 0:                 # a node that joins has none before its log names it
        if membership_decode(encoded, length, membership) != OK:
            return CORRUPT
    membership.index = membership_index
    return OK


cdef status_t _restore(Engine* engine, const WalOpened* opened, const Restored* restored) noexcept nogil:
    cdef SnapshotPoint begin = _log_begin(opened, restored)
    cdef index_t applied = max(opened.start.index, restored.point.index)
    cdef Membership membership
    cdef status_t status = _membership_at(opened, restored, begin.index, &membership)
    if status == OK:
        status = core_restore_membership(engine.core, &begin, &membership)
    if status == OK:
        status = _restore_records(engine, opened, begin.index)
    if status == OK:
        status = core_restored(engine.core, &opened.hard_state, applied)
    if status == OK and restored.point.index != 0:
        status = core_compacted(engine.core, applied, begin.index)
    return status


# Tell the engine what it has: its state, points, and copies of the state.
cdef status_t _adopt(Engine* engine, const WalOpened* opened, const Restored* restored) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    applier_begin(&engine.applying, max(opened.start.index, restored.point.index))
    snapshots.point = snapshots.checkpointed = restored.point.index
    # Back to here the log is kept until the next point: where it begins, or at the file before the newest.
    snapshots.checkpointed_before = snapshots.compacted = opened.start.index
    if snapshots.files.size > 1:
        snapshots.checkpointed_before = max(opened.start.index, snapshots.files.data[0].point.index)
    snapshots.last = restored.point
    snapshots.last_wall_ms = restored.wall_ms
    snapshots.membership_index = restored.membership_index
    if engine.checkpoints.self != NULL:
        engine.checkpoints.begin_from(engine.checkpoints.self, engine.machine, restored.is_checkpoint)
    if restored.point.index == 0:
        snapshots.membership_index = opened.membership_index
        if not snapshots.membership.append(opened.membership, opened.membership_length):
            return NO_MEMORY
        return OK
    if not snapshots.membership.append(restored.membership.data, restored.membership.size):
        return NO_MEMORY
    return core_set_clocks(engine.core, restored.lease_ms, restored.wall_ms)


# A core before its first entry.
cdef status_t _start_empty(Engine* engine, const Membership* membership) noexcept nogil:
    cdef SnapshotPoint beginning
    cdef HardState hard_state
    cdef status_t status = _create_parts(engine)
    memset(&beginning, 0, sizeof(SnapshotPoint))
    memset(&hard_state, 0, sizeof(HardState))
    if status == OK:
        status = core_restore_membership(engine.core, &beginning, membership)
    if status == OK:
        status = core_restored(engine.core, &hard_state, 0)
    if status == OK and engine.checkpoints.self != NULL:
        engine.checkpoints.begin_from(engine.checkpoints.self, engine.machine, False)
    if status == OK and membership.count != 0:
        engine.snapshots.membership_index = membership.index
        status = membership_encode(membership, &engine.snapshots.membership)
    return status if status != OK else _start(engine)


cdef void _take_identity(Engine* engine, Wal* wal, const Identity* identity) noexcept nogil:
    engine.id = identity.id
    engine.boot = identity.boot
    engine.cluster.low = identity.genesis.cluster_low
    engine.cluster.high = identity.genesis.cluster_high
    wal.limits.owner = identity.id
    wal.limits.void_owner = identity.former


# --- a life begins ----------------------------------------------------------------------------------------------------
# An empty log for an incarnation that has none; the leader takes it as a learner.
cdef status_t _begin_again(Engine* engine, Wal* wal, const Membership* membership) noexcept nogil:
    cdef SnapshotPoint beginning
    cdef HardState hard_state
    cdef status_t status
    memset(&beginning, 0, sizeof(SnapshotPoint))
    memset(&hard_state, 0, sizeof(HardState))
    status = wal_begin(wal, &beginning, &hard_state, NULL, 0, 0)
    return status if status != OK else _start_empty(engine, membership)


# The log ends before the point, or goes another way there: it holds nothing that the state does not have, but what
# was never committed.
cdef status_t _finish_install(Wal* wal, const Restored* restored, WalOpened* opened) noexcept nogil:
    cdef status_t status
    wal_open_done(wal)
    status = wal_begin(wal, &restored.point, &opened.hard_state, restored.membership.data,
                       <uint32_t>restored.membership.size, restored.membership_index)
    opened.start = restored.point
    opened.last = restored.point.index
    opened.slice_count = 0
    opened.damaged_count = 0
    return status


cdef status_t _go_on(Engine* engine, Wal* wal, WalOpened* opened, const Restored* restored) noexcept nogil:
    cdef status_t status = _create_parts(engine)
    if status == OK and not restored_continues(restored, opened):
        status = _finish_install(wal, restored, opened)
    if status == OK:
        status = _restore(engine, opened, restored)
    if status == OK:
        status = _adopt(engine, opened, restored)
    if status != OK:
        return status
    engine.room.free_bytes = wal_free_bytes(wal)
    engine.room.log_bytes = wal_used_bytes(wal)
    core_set_free_bytes(engine.core, engine.room.free_bytes)
    return _start(engine)


cdef bint _has_others(const Engine* engine) noexcept nogil:
    cdef int i
    for i in range(MEMBERS_MAX):
        if engine.links.table[i].is_used and not engine.links.table[i].is_self:
            return True
    return False


# It must never vote again under the name by which it promised what is gone (decisions/log.md "A lost log").
cdef status_t _renew(Engine* engine, Identity* identity, const WalOpened* opened) noexcept nogil:
    if not _has_others(engine):
        return CORRUPT      # nobody could bring it back: the files stay for those who can still read something in them
    return identity_renew(identity, &engine.random, opened.state == WAL_VOID)


cdef bint _is_member(const Identity* identity) noexcept nogil:
    return identity.genesis.state == FOUNDED or identity.genesis.state == JOINING


cdef status_t _begin_life(Engine* engine, Wal* wal, Identity* identity, WalOpened* opened,
                          Restored* restored) noexcept nogil:
    cdef bint is_member = _is_member(identity)
    # A void log is what a crash between a renewal and the new log leaves. Whom a leader's membership named had a log
    # since: a disk that lies may lose its headers and leave the former one's, whose files are used again.
    cdef bint is_lost = is_member and (opened.state == WAL_BLANK or opened.state == WAL_TAIL_LOST
                                       or (opened.state == WAL_VOID and identity.genesis.state == FOUNDED))
    cdef bint begins = is_lost or opened.state == WAL_VOID
    cdef status_t status = OK
    if is_member and not begins:
        status = restore_state(engine, restored)
        # As good as lost: the log reaches back to no copy of the state that is whole, or it ends before a file that was
        # received, vouched for, and is not whole: a crash came before the log began behind it (snapshots/install).
        is_lost = begins = status == OK and (restored.point.index < opened.start.index
                                             or restored.passed_over > max(restored.point.index, opened.last))
        engine.boot_part = BOOT_STATE
        if is_lost and restored.has_unreadable:
            status = DISK_FAILED    # a copy that could not be read now may be the one
    if status == OK:
        status = _renew(engine, identity, opened) if is_lost else identity_count_boot(identity)
    if status == OK and is_member and begins:
        status = restore_forget(engine)     # also when a boot before this one renewed the identity and got no further
    if status == OK:
        status = _begin_with(engine, wal, identity, opened, restored, is_member, begins)
    return status


cdef status_t _begin_with(Engine* engine, Wal* wal, Identity* identity, WalOpened* opened, const Restored* restored,
                          bint is_member, bint begins) noexcept nogil:
    cdef status_t status
    _take_identity(engine, wal, identity)
    engine.state = ENGINE_GENESIS
    engine.calls.own.base = 1
    command_init(&engine.scratch)
    status = _begin_genesis(engine, &identity.genesis)
    if status != OK or not is_member:
        return status       # whatever stands there was begun by a founding that this node did not see the end of
    if begins:
        return _begin_again(engine, wal, &identity.genesis.membership)
    return _go_on(engine, wal, opened, restored)


# The opening of the log, as work for another thread: it has the log and the disk to itself.
cdef struct Opening:
    Wal* wal
    WalOpened opened
    status_t status


cdef void _open_log(void* argument) noexcept nogil:
    cdef Opening* opening = <Opening*>argument
    opening.status = wal_open(opening.wal, &opening.opened)


cdef void _open_both(Engine* engine, Opening* opening, Restored* restored, bint is_member) noexcept nogil:
    if engine.beside.self == NULL:
        _open_log(opening)
    else:
        engine.beside.run(engine.beside.self, _open_log, opening)
    if is_member:
        restore_checkpoint(engine, restored)
    if engine.beside.self != NULL:
        engine.beside.wait(engine.beside.self)


cdef status_t boot_engine(Engine* engine, Wal* wal, void* identity) noexcept nogil:
    cdef Identity* self = <Identity*>identity
    cdef Opening opening
    cdef Restored restored
    cdef WalOpened* opened = &opening.opened
    engine.boot_part = BOOT_IDENTITY
    cdef status_t status = identity_open(self, &engine.random)
    if status != OK:
        return status
    _take_identity(engine, wal, self)
    memset(<void*>&opening, 0, sizeof(Opening))
    memset(<void*>&restored, 0, sizeof(Restored))
    opening.wal = wal
    engine.boot_part = BOOT_STATE
    # Before the log is opened, which writes its mark: a folder of a newer version is left as it is, and so is one whose
    # key is not there.
    status = restore_look(engine, &restored) if _is_member(self) else <status_t>OK
    if status == NEWER_FORMAT or status == NO_KEY:
        restored_release(&restored)
        return status
    engine.boot_part = BOOT_LOG
    _open_both(engine, &opening, &restored, _is_member(self))
    status = opening.status
    if status == OK and self.is_new and opened.state != WAL_BLANK:
        status = FOREIGN_NODE       # a log, and nobody knows whose
    if status == OK:
        engine.callers.event(engine.callers.self, EVENT_LOG_OPENED, opened.state, opened.last, opened.dropped_bytes)
        status = _begin_life(engine, wal, self, opened, &restored)
    restored_release(&restored)
    wal_open_done(wal)
    return status


# --- a founding -------------------------------------------------------------------------------------------------------
cdef status_t boot_identity_persisted(Engine* engine, const DiskJob* job) noexcept nogil:
    if job.status == NO_SPACE:      # nothing was written; the peers wait as long as this node does
        engine.genesis.must_persist = True
        engine.identity_tick = engine.ticks + IDENTITY_RETRY_TICKS
        return OK
    if job.status != OK:
        return job.status if is_fatal(job.status) else DISK_FAILED
    engine.cluster.low = job.genesis.cluster_low
    engine.cluster.high = job.genesis.cluster_high
    return genesis_persisted(&engine.genesis)


cdef status_t boot_found(Engine* engine) noexcept nogil:
    if engine.genesis.record.state == JOINING:
        engine.callers.event(engine.callers.self, EVENT_JOINED, engine.cluster.low, engine.cluster.high, engine.id)
    else:
        engine.callers.event(engine.callers.self, EVENT_FOUNDED, engine.cluster.low, engine.cluster.high, 0)
    return _start_empty(engine, &engine.genesis.record.membership)
