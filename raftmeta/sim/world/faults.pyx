"""The faults of the simulated world, each as somebody would tell it (docs/faults.md "What goes wrong in it").

It decides who is struck, how and for how long, by the faults' own random stream. It must never judge what
follows. Faults that take away what was durable ask the atlas first (raftmeta/sim/world/atlas).
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.engine.engine cimport engine_submit
from raftmeta.engine.snapshots.files cimport sealed_name
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.engine.submission cimport SUBMIT_TRANSFER, Submission, submission_create
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64, next_random
from raftmeta.ports cimport FileName
from raftmeta.sim.world.atlas cimport atlas_allows, atlas_end, atlas_is_calm, atlas_note, atlas_note_rot
from raftmeta.sim.world.checkpoints cimport checkpoint_damage
from raftmeta.sim.world.disk cimport sim_disk_flip, sim_disk_write_back
from raftmeta.sim.world.events cimport SIM_HEAL, SIM_REVEAL, SIM_ROOM
from raftmeta.sim.world.network cimport network_cut, network_heal, network_replay
from raftmeta.sim.world.nodes cimport node_copy, node_crash, node_put_back, node_run, node_wipe
from raftmeta.sim.world.operator cimport operator_act, operator_leader
from raftmeta.sim.world.schedule cimport schedule_after
from raftmeta.sim.world.story cimport story_fault
from raftmeta.sim.world.workload cimport workload_call
from raftmeta.sim.world.world_state cimport (FAULT_CALLS, FAULT_CRASH, FAULT_CRASH_ALL, FAULT_CUT_AT_SYNC,
                                             FAULT_DISK_ERROR, FAULT_FLIP, FAULT_FULL, FAULT_HANG, FAULT_HEAL,
                                             FAULT_ISOLATE, FAULT_KINDS, FAULT_MEMBERSHIP, FAULT_MISDIRECT,
                                             FAULT_PARTITION, FAULT_PAUSE, FAULT_PUT_BACK, FAULT_REPLAY, FAULT_ROT,
                                             FAULT_TRANSFER, FAULT_WALL, FAULT_WIPE, VIOLATION_NO_MEMORY, SimDecision,
                                             SimFaultRates, SimNode, violate)
from raftmeta.status cimport OK
from raftmeta.storage.recovery cimport segment_name
from raftmeta.storage.wal_state cimport Segment
from raftmeta.wire.snapshot_messages cimport SnapshotFile

cdef enum:
    # How long faults last, in ticks.
    HEAL_TICKS = 40             # mean life of a partition
    ISOLATION_TICKS = 120       # mean time for which a leader is cut off: most outlive an election time-out
    PAUSE_TICKS = 80            # longest pause
    HANG_TICKS = 600            # longest time for which the Python of a host stands still
    FULL_TICKS = 50             # mean time until a full disk has room again
    REVEAL_TICKS = 20           # mean time until a misdirected write's process dies
    REPLAYS = 8                 # frames of one replay
    WALL_JUMP_MS = 3_600_000    # longest leap of a wall clock, to either side
    CALLS = 4                   # of each node, when all clients call
    STREAM_OF_GAPS = 15         # between those of the kinds, where it always was: tapes keep their histories


cdef bint _draws(World* world, uint32_t ppm) noexcept nogil:
    return next_random(&world.random_faults) % 1_000_000 < ppm


cdef uint64_t _ticks_us(World* world, uint32_t ticks) noexcept nogil:
    return <uint64_t>ticks * world.config.tick_ms * 1000


cdef SimNode* _any_node(World* world) noexcept nogil:
    return &world.nodes[next_random(&world.random_faults) % world.config.nodes]


cdef bint _answers(World* world, const SimNode* node) noexcept nogil:
    return node.is_up and node.engine.state == ENGINE_RUNNING and node.paused_until_ns <= world.now_ns


# --- partitions (N1-N4) -----------------------------------------------------------------------------------------------
cdef enum PartitionShape:
    SHAPE_HALVES                # two sides by a random mask
    SHAPE_ONE_WAY               # the same, and one side still hears the other
    SHAPE_BRIDGE                # two sides that share one node
    SHAPE_RING                  # everybody hears the next ones, as many as a majority takes, and nobody all
    SHAPE_RANDOM                # each direction of each pair for itself
    SHAPE_COUNT


cdef bint _is_cut(World* world, PartitionShape shape, uint64_t draw, uint32_t source, uint32_t target) noexcept nogil:
    cdef uint32_t nodes = world.config.nodes
    cdef uint32_t bridge = <uint32_t>(draw >> 40) % nodes
    cdef bint is_across = (draw >> source & 1) != (draw >> target & 1)
    cdef uint32_t distance = (source + nodes - target) % nodes
    if shape == SHAPE_HALVES:
        return is_across
    if shape == SHAPE_ONE_WAY:
        return is_across and draw >> source & 1 != 0
    if shape == SHAPE_BRIDGE:
        return is_across and source != bridge and target != bridge
    if shape == SHAPE_RING:
        return 2 * min(distance, nodes - distance) > nodes // 2
    return draw >> ((source * nodes + target) % 64) & 1 != 0


cdef void _partition(World* world) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_faults)
    cdef PartitionShape shape = <PartitionShape>((draw >> 56) % SHAPE_COUNT)
    cdef uint32_t source, target
    world.counts.partitions += 1
    for source in range(world.config.nodes):
        for target in range(world.config.nodes):
            if source != target and _is_cut(world, shape, draw, source, target):
                network_cut(world, source, target)
    schedule_after(world, SIM_HEAL, 0, 0, _ticks_us(world, HEAL_TICKS), &world.random_faults)


# The leader with a minority, longer than an election takes: what it appends there is truncated afterwards.
cdef void _isolate(World* world) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_faults)
    cdef SimNode* leader = operator_leader(world)
    cdef uint64_t side
    cdef uint32_t source, target
    if leader == NULL:
        return
    network_heal(world)         # one at a time: it lasts until its own end or the next one
    world.counts.isolations += 1
    side = <uint64_t>1 << leader.number
    if world.config.nodes > 3:
        side |= <uint64_t>1 << draw % world.config.nodes
    for source in range(world.config.nodes):
        for target in range(world.config.nodes):
            if (side >> source & 1) != (side >> target & 1):
                network_cut(world, source, target)
    schedule_after(world, SIM_HEAL, 0, world.counts.isolations, _ticks_us(world, ISOLATION_TICKS),
                   &world.random_faults)


cdef void faults_heal(World* world, const SimEvent* event) noexcept nogil:
    if world.faults_are_on and (event.life == 0 or event.life == world.counts.isolations):
        network_heal(world)


# --- crashes (P1, P2, D1, D2) -----------------------------------------------------------------------------------------
# Power cuts are not for a disk with damage that nobody found yet: both at once may hide that the last batch was
# acknowledged (docs/decisions/log.md "The mark is not synced with each batch").
cdef void _crash(World* world, SimNode* node) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_faults)
    if node.is_up:
        node_crash(world, node, draw & 1 and not node.is_suspect)


# Power fails inside one of the node's coming disk calls.
cdef void _cut_at_sync(World* world, SimNode* node) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_faults)
    if node.is_suspect and node.suspect_life == node.life:
        return
    if draw & 1:
        node.disk.faults.cut_at_sync = 1 + (draw >> 8) % 20
        node.disk.faults.cut_after_sync = draw >> 1 & 1
    else:
        node.disk.faults.cut_at_write = 1 + (draw >> 8) % 20


# --- disks that lose or damage what they hold (D3, D4, M6) ------------------------------------------------------------
# In ruin one node keeps its disk: were all of them blank, nothing would forbid to found another cluster.
cdef void _wipe(World* world, SimNode* node) noexcept nogil:
    if not atlas_allows(world, node) or (world.config.is_ruin and node.number == 0):
        return
    world.counts.wipes += 1
    atlas_note(node)
    node_crash(world, node, False)
    node_wipe(world, node)


# A removed node's folder is emptied: it comes back as a stranger of the same name, and nobody misses anything.
cdef void _wipe_removed(World* world, SimNode* node) noexcept nogil:
    if _answers(world, node) and node.engine.standing.was_removed and not node.is_suspect:
        world.counts.wipes += 1
        node_crash(world, node, False)
        node_wipe(world, node)


# A segment of the log or the newest sealed file, and how long it is.
cdef uint64_t _file_to_flip(const SimNode* node, uint64_t draw, FileName* name) noexcept nogil:
    cdef const Vec[SnapshotFile]* files = &node.engine.snapshots.files
    cdef const Segment* segment
    if files.size != 0 and draw >> 60 & 1:
        sealed_name(files.data[files.size - 1].point.index, name.text)
        return files.data[files.size - 1].size_bytes
    segment = &node.wal.segments.data[draw % node.wal.segments.size]
    segment_name(segment.number, name.text)
    return segment.end


cdef void _write_back(World* world, SimNode* node) noexcept nogil:
    if sim_disk_write_back(node.disk) != OK:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)


# A process dies, the kernel writes back what it left, and a bit of a file or of its checkpoint does not survive.
# The power may fail while the damaged log is opened.
cdef void _flip(World* world, SimNode* node) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_faults)
    cdef uint64_t size_bytes
    cdef FileName name
    if not atlas_allows(world, node) or node.wal.segments.size == 0:
        return
    # Not where a write over old bytes was refused in this life (_fill_disk): it may have been the mark, and then nobody
    # knows that the damaged batch was whole. Those are two faults of one disk at once, as in _misdirect.
    if node.disk.counters.failures != node.failures_seen and not world.config.is_ruin:
        return
    size_bytes = _file_to_flip(node, draw, &name)
    atlas_note(node)
    node_crash(world, node, False)
    _write_back(world, node)
    if draw >> 58 & 3 == 0 and checkpoint_damage(node, <uint32_t>(draw >> 16)):
        world.counts.flips += 1
        node.was_damaged = True
        return
    if sim_disk_flip(node.disk, name.text, (draw >> 16) % size_bytes, 1 << (draw >> 8) % 8) == OK:
        world.counts.flips += 1
        node.was_damaged = True


# A bit of the newest sealed file flips, and nobody notices: the node runs on and offers it.
cdef void _rot(World* world, SimNode* node) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_faults)
    cdef SnapshotFile* file
    cdef FileName name
    if not atlas_allows(world, node) or node.engine.snapshots.files.size == 0:
        return
    file = &node.engine.snapshots.files.back()
    sealed_name(file.point.index, name.text)
    if sim_disk_flip(node.disk, name.text, (draw >> 16) % file.size_bytes, 1 << (draw >> 8) % 8) == OK:
        world.counts.rotten_files += 1
        node.was_damaged = True
        atlas_note_rot(node, file.point.index)


# One of the coming writes lands some sectors away, or nowhere, and reports success.
#
# Not where the next write over old bytes may be refused (_fill_disk): 1. a batch is lost, 2. the mark that would tell
# of it finds no room, 3. nobody knows that anything is missing. Those are two faults of one disk at once.
cdef void _misdirect(World* world, SimNode* node) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_faults)
    cdef int64_t sectors = 1 + <int64_t>((draw >> 8) % 64)
    if not atlas_allows(world, node) or node.disk.faults.misdirect_at_write or node.disk.faults.lose_at_write:
        return
    if node.disk.faults.no_space_at_write and not world.config.is_ruin:
        return
    if draw & 1:
        node.disk.faults.lose_at_write = 1 + (draw >> 16) % 20
    else:
        node.disk.faults.misdirect_at_write = 1 + (draw >> 16) % 20
        node.disk.faults.misdirect_by = (-sectors if draw & 2 else sectors) * world.config.sector_bytes
    node.disk.faults.cut_at_sync = node.disk.faults.cut_at_write = 0
    world.counts.misdirections += 1
    atlas_note(node)
    node.was_damaged = True
    schedule_after(world, SIM_REVEAL, node.number, node.life, _ticks_us(world, REVEAL_TICKS), &world.random_faults)


cdef void faults_reveal(World* world, const SimEvent* event) noexcept nogil:
    cdef SimNode* node = &world.nodes[event.node]
    if node.is_up and node.life == event.life:
        node_crash(world, node, False)
        _write_back(world, node)


# --- folders put back to an older copy --------------------------------------------------------------------------------
# Somebody copies a folder, and the next time puts the copy in the folder's place. Only in ruin: nothing can keep
# what was acknowledged since (docs/operations.md "A folder that was put back"). No checkpoint is in the copy.
cdef void _put_back(World* world, SimNode* node) noexcept nogil:
    if not world.config.is_ruin or world.config.has_checkpoints or not atlas_allows(world, node):
        return
    if node.copy_disk == NULL:
        node_copy(world, node)
        return
    world.counts.put_backs += 1
    node_crash(world, node, False)
    node_put_back(node)


# --- disks that refuse (D5-D7) ----------------------------------------------------------------------------------------
# EIO, once, at one of the coming reads, writes or syncs: the node stops for good and is started again.
cdef void _fail_call(World* world, SimNode* node) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_faults)
    cdef uint64_t call = 1 + (draw >> 8) % 20
    if draw & 3 == 0:
        node.disk.faults.fail_at_read = call
    elif draw & 3 == 1:
        node.disk.faults.fail_at_write = call
    else:
        node.disk.faults.fail_at_sync = call


# Nearly nothing fits any more, for a while; or one write finds room for half of its bytes.
cdef void _fill_disk(World* world, SimNode* node) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_faults)
    cdef uint64_t bytes = 1 + (draw >> 8) % world.config.segment_bytes
    cdef size_t i
    world.counts.full_disks += 1
    if draw & 3 == 0:
        if world.config.is_ruin or not (node.was_damaged and node.life == node.suspect_life):
            node.disk.faults.no_space_at_write = 1 + (draw >> 8) % 20
        return
    for i in range(node.disk.files.size):
        if node.disk.files.data[i].in_use:
            bytes += node.disk.files.data[i].cached.size
    node.disk.faults.capacity_bytes = bytes
    schedule_after(world, SIM_ROOM, node.number, 0, _ticks_us(world, FULL_TICKS), &world.random_faults)


# --- time (P3, P5) ----------------------------------------------------------------------------------------------------
cdef void _pause(World* world, SimNode* node) noexcept nogil:
    world.counts.pauses += 1
    node.paused_until_ns = world.now_ns + next_random(&world.random_faults) % (1000 * _ticks_us(world, PAUSE_TICKS))


# The Python of its process stands still; no client of that process calls, and the engine goes on.
cdef void _hang(World* world, SimNode* node) noexcept nogil:
    world.counts.hangs += 1
    node.hung_until_ns = world.now_ns + next_random(&world.random_faults) % (1000 * _ticks_us(world, HANG_TICKS))


cdef void _set_wall_clock(World* world, SimNode* node) noexcept nogil:
    world.counts.wall_jumps += 1
    node.wall_offset_ms = <int64_t>(next_random(&world.random_faults) % (2 * WALL_JUMP_MS)) - WALL_JUMP_MS


# --- calls (R2, M1, M2) -----------------------------------------------------------------------------------------------
cdef void _transfer(World* world, SimNode* node) noexcept nogil:
    cdef Submission* submission
    if not _answers(world, node):
        return
    submission = submission_create(SUBMIT_TRANSFER, 0)
    if submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    submission.arguments.transfer.target = _any_node(world).id
    world.counts.transfers += 1
    engine_submit(node.engine, submission)
    node_run(world, node)


cdef void _call(World* world) noexcept nogil:
    cdef uint32_t number, _number
    for number in range(world.config.nodes):
        if not _answers(world, &world.nodes[number]) or not world.clients_are_on:
            continue
        for _number in range(CALLS):
            workload_call(world, &world.nodes[number])
        node_run(world, &world.nodes[number])


cdef void _change_members(World* world) noexcept nogil:
    if atlas_is_calm(world):
        operator_act(world)
    _wipe_removed(world, _any_node(world))


# --- one event --------------------------------------------------------------------------------------------------------
cdef uint32_t _rate(const SimFaultRates* rates, uint32_t kind) noexcept nogil:
    cdef uint32_t[FAULT_KINDS] by_kind
    by_kind[FAULT_PARTITION] = rates.partition_ppm
    by_kind[FAULT_ISOLATE] = rates.isolate_ppm
    by_kind[FAULT_REPLAY] = rates.replay_ppm
    by_kind[FAULT_CRASH] = rates.crash_ppm
    by_kind[FAULT_CRASH_ALL] = rates.crash_all_ppm
    by_kind[FAULT_PAUSE] = rates.pause_ppm
    by_kind[FAULT_WALL] = rates.wall_ppm
    by_kind[FAULT_CUT_AT_SYNC] = rates.cut_at_sync_ppm
    by_kind[FAULT_WIPE] = rates.wipe_ppm
    by_kind[FAULT_FLIP] = rates.flip_ppm
    by_kind[FAULT_ROT] = rates.rot_ppm
    by_kind[FAULT_MISDIRECT] = rates.misdirect_ppm
    by_kind[FAULT_DISK_ERROR] = rates.disk_error_ppm
    by_kind[FAULT_FULL] = rates.full_ppm
    by_kind[FAULT_TRANSFER] = rates.transfer_ppm
    by_kind[FAULT_MEMBERSHIP] = rates.membership_ppm
    by_kind[FAULT_HANG] = rates.hang_ppm
    by_kind[FAULT_PUT_BACK] = rates.put_back_ppm
    by_kind[FAULT_HEAL] = by_kind[FAULT_CALLS] = 0
    return by_kind[kind]


cdef void _act(World* world, uint32_t kind) noexcept nogil:
    cdef uint32_t number, _number
    if kind == FAULT_PARTITION:
        _partition(world)
    elif kind == FAULT_ISOLATE:
        _isolate(world)
    elif kind == FAULT_REPLAY:
        for _number in range(REPLAYS):
            network_replay(world, next_random(&world.random_faults))
    elif kind == FAULT_CRASH:
        _crash(world, _any_node(world))
    elif kind == FAULT_CRASH_ALL:
        for number in range(world.config.nodes):
            _crash(world, &world.nodes[number])
    elif kind == FAULT_PAUSE:
        _pause(world, _any_node(world))
    elif kind == FAULT_HANG:
        _hang(world, _any_node(world))
    elif kind == FAULT_WALL:
        _set_wall_clock(world, _any_node(world))
    elif kind == FAULT_TRANSFER:
        _transfer(world, _any_node(world))
    elif kind == FAULT_MEMBERSHIP:
        _change_members(world)
    elif kind == FAULT_HEAL:
        _heal(world)
    elif kind == FAULT_CALLS:
        _call(world)
    else:
        _act_on_disk(world, kind, _any_node(world))


cdef void _act_on_disk(World* world, uint32_t kind, SimNode* node) noexcept nogil:
    if kind == FAULT_CUT_AT_SYNC:
        _cut_at_sync(world, node)
    elif kind == FAULT_WIPE:
        _wipe(world, node)
    elif kind == FAULT_FLIP:
        _flip(world, node)
    elif kind == FAULT_ROT:
        _rot(world, node)
    elif kind == FAULT_PUT_BACK:
        _put_back(world, node)
    elif kind == FAULT_MISDIRECT:
        _misdirect(world, node)
    elif kind == FAULT_DISK_ERROR:
        _fail_call(world, node)
    else:
        _fill_disk(world, node)


# Each decision and each fault draws from a stream of its own: one less on the tape changes the draws of no other.
cdef void _begin(World* world, uint32_t stream) noexcept nogil:
    cdef uint64_t[3] place
    place[0] = world.config.seed
    place[1] = world.strikes
    place[2] = stream
    world.random_faults = hash64(0, place, sizeof(place))


cdef void _begin_stream(World* world, uint32_t kind) noexcept nogil:
    _begin(world, kind + (kind >= <uint32_t>STREAM_OF_GAPS))


cdef bint _strikes(World* world, uint32_t kind) noexcept nogil:
    cdef SimDecision* next
    cdef bint is_drawn = _draws(world, _rate(&world.config.faults, kind))
    if not world.has_script:
        return is_drawn
    if world.script_next == world.script.size:
        return False
    next = &world.script.data[world.script_next]
    if next.strike != world.strikes or next.kind != kind:
        return False
    world.script_next += 1
    return True


cdef void faults_strike(World* world) noexcept nogil:
    cdef SimDecision decision
    cdef uint32_t kind
    for kind in range(<uint32_t>FAULT_KINDS):
        _begin_stream(world, kind)
        if not _strikes(world, kind):
            continue
        decision.strike = world.strikes
        decision.kind = kind
        if not world.tape.push(decision):
            violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
        story_fault(world, kind)
        _act(world, kind)
    _begin(world, STREAM_OF_GAPS)           # when the next one comes
    world.strikes += 1


cdef void faults_end(World* world) noexcept nogil:
    world.faults_are_on = False
    atlas_end(world)
    _heal(world)


cdef void _heal(World* world) noexcept nogil:
    cdef uint32_t number
    network_heal(world)
    for number in range(world.config.nodes):
        world.nodes[number].paused_until_ns = world.nodes[number].hung_until_ns = 0
        memset(&world.nodes[number].disk.faults, 0, sizeof(world.nodes[number].disk.faults))
