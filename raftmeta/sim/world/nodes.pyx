"""One simulated node: the production engine over a simulated folder, clock and network.

The disk works in two steps, as the write thread does: SIM_JOBS does what is queued at that moment (so a crash before it
loses the write, a crash inside it tears it), SIM_JOBS_DONE tells the engine (so a crash in between has written what
nobody was told). Which jobs are next says engine/job_order, as in production; how long the background waits beyond its
turn, as it does behind slow syncs, is up to chance (SimConfig.background_us).
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta._core cimport TRACE_BECAME_LEADER, TRACE_MEMBERSHIP, TRACE_TRANSFER, TRACE_TRUNCATED
from raftmeta.engine.disk_jobs cimport DiskJob, disk_job_destroy, disk_jobs_run
from raftmeta.engine.engine cimport (engine_add_peer, engine_boot, engine_deadline_ns, engine_job_done, engine_release,
                                     engine_run, engine_stop)
from raftmeta.engine.job_order cimport order_arrived, order_background
from raftmeta.engine.promises cimport engine_broken
from raftmeta.engine.state cimport (ENGINE_RUNNING, ENGINE_STOPPED, EVENT_COMPACTED, EVENT_HOST_STALLED,
                                    EVENT_LOG_COMPACTED, EVENT_LOG_OPENED, EVENT_SNAPSHOT_DAMAGED, EVENT_SNAPSHOT_DUE,
                                    EVENT_SNAPSHOT_FAILED, EVENT_SNAPSHOT_INSTALLED, EVENT_SNAPSHOT_LOADED,
                                    EVENT_SNAPSHOT_TAKEN, EVENT_TRACE, Engine, EngineConfig)
from raftmeta.native.chunks cimport chunk_drop
from raftmeta.native.intrinsics cimport next_random
from raftmeta.raft.state cimport core_config_init
from raftmeta.raft.types cimport index_t
from raftmeta.sim.world.atlas cimport atlas_note_membership
from raftmeta.sim.world.checkpoints cimport checkpoint_let_go, checkpoint_port, checkpoint_wipe
from raftmeta.sim.world.disk cimport (sim_disk_copy, sim_disk_crash, sim_disk_create, sim_disk_destroy, sim_disk_port,
                                      sim_disk_reopen)
from raftmeta.sim.world.events cimport SIM_BACKGROUND, SIM_JOBS, SIM_JOBS_DONE, SIM_RESTART, SIM_WAKE
from raftmeta.sim.world.leases cimport leases_kept
from raftmeta.sim.world.network cimport network_look, network_node_down, network_node_up, network_port
from raftmeta.sim.world.points cimport points_taken
from raftmeta.sim.world.read_proofs cimport proofs_begin, proofs_look
from raftmeta.sim.world.schedule cimport schedule_after, schedule_at
from raftmeta.sim.world.truth cimport (truth_after_run, truth_durable, truth_file, truth_leader, truth_point,
                                       truth_recovered, truth_truncated)
from raftmeta.sim.world.user_copies cimport copies_look
from raftmeta.sim.world.watches cimport watches_look, watches_woken
from raftmeta.sim.world.workload cimport workload_done, workload_forget_node
from raftmeta.sim.world.world_state cimport (SIM_BEGIN_NS, VIOLATION_FATAL, VIOLATION_NO_MEMORY, VIOLATION_RECOVERY,
                                             SimLease, SimNode, World, member_count, violate)
from raftmeta.status cimport DISK_FAILED, HISTORY_LOST, NO_SPACE, OK, POWER_CUT, is_fatal, status_t
from raftmeta.storage.identity cimport identity_create, identity_destroy
from raftmeta.storage.wal cimport WAL_DAMAGED, wal_create, wal_destroy
from raftmeta.storage.wal_state cimport WalLimits

cdef enum:
    SIM_TURNS_MAX = 10_000      # of one engine at one moment: more means that it never rests
    MILLION = 1_000_000
    WALL_BEGIN_MS = 1_700_000_000_000
    BACKGROUND_WAITS_1_IN = 8   # of its steps: a snapshot takes many
    CLOCK_BASE_NS_MAX = 3_600_000_000_000   # what a node's clock may read when it boots, beside the world's beginning


# --- ports ------------------------------------------------------------------------------------------------------------
# The node's own clock: it began anywhere at its boot, and runs a little too fast or too slow (P6).
cdef uint64_t _now_ns(void* self) noexcept nogil:
    cdef SimNode* node = <SimNode*>self
    cdef uint64_t passed_ns = node.world.now_ns - node.boot_ns
    return node.clock_base_ns + passed_ns + <uint64_t>(<int64_t>passed_ns // MILLION * node.clock_ppm)


cdef uint64_t _world_ns(const SimNode* node, uint64_t local_ns) noexcept nogil:
    cdef uint64_t passed_ns
    if local_ns <= node.clock_base_ns:
        return node.boot_ns
    passed_ns = local_ns - node.clock_base_ns
    if node.clock_ppm != 0:         # rounded up to where the node's clock certainly shows it
        passed_ns = (passed_ns // <uint64_t>(MILLION + node.clock_ppm) + 2) * MILLION
    return node.boot_ns + passed_ns


cdef uint64_t _wall_ms(void* self) noexcept nogil:
    cdef SimNode* node = <SimNode*>self
    return WALL_BEGIN_MS + node.world.now_ns // MILLION + <uint64_t>node.wall_offset_ms


cdef uint64_t _next_random(void* self) noexcept nogil:
    return next_random(&(<SimNode*>self).random)


cdef void _submit_job(void* self, DiskJob* job) noexcept nogil:
    cdef SimNode* node = <SimNode*>self
    job.next = NULL
    if node.jobs_first == NULL:
        node.jobs_first = job
    else:
        node.jobs_last.next = job
    node.jobs_last = job
    _plan_disk(node.world, node)


cdef bint _claim(void* self, void* owner) noexcept nogil:
    return True


cdef void _done(void* self, void* owner, status_t status, uint64_t revision, index_t index, const uint8_t* body,
                uint32_t length) noexcept nogil:
    cdef SimNode* node = <SimNode*>self
    workload_done(node.world, node, owner, status, revision, index, body, length)


cdef void _woken(void* self, void* handle) noexcept nogil:
    watches_woken(handle)


cdef void _lease_kept(void* self, void* handle, uint64_t until_ns) noexcept nogil:
    cdef SimNode* node = <SimNode*>self
    leases_kept(node.world, node, <SimLease*>handle, _world_ns(node, until_ns) if until_ns != 0 else 0)


cdef void _flush(void* self) noexcept nogil:
    pass


cdef bint _readers_left(void* self) noexcept nogil:
    return True             # clients of the world read within their call


cdef void _count_snapshot(World* world, SimNode* node, uint8_t type, uint64_t a, uint64_t b, uint64_t c) noexcept nogil:
    if type == EVENT_SNAPSHOT_DUE:
        truth_point(world, node, a, b)
        if node.engine.snapshots.point != a:        # else the node itself says that it is a point, and must be right
            points_taken(world, node, a)
    elif type == EVENT_SNAPSHOT_TAKEN:
        world.counts.snapshots += 1
        if b != 0:                  # else a checkpoint, of which no other node has a copy
            truth_file(world, node, a, c)
    elif type == EVENT_SNAPSHOT_FAILED:
        world.counts.snapshots_failed += 1
    elif type == EVENT_SNAPSHOT_INSTALLED:
        world.counts.installs += 1
    elif type == EVENT_SNAPSHOT_LOADED:
        world.counts.loads += 1
    elif type == EVENT_LOG_COMPACTED:
        world.counts.log_compactions += 1
    elif type == EVENT_SNAPSHOT_DAMAGED:
        world.counts.damaged_files += 1


cdef void _event(void* self, uint8_t type, uint64_t a, uint64_t b, uint64_t c) noexcept nogil:
    cdef SimNode* node = <SimNode*>self
    if type == EVENT_COMPACTED:
        node.world.counts.compactions += 1
    elif type == EVENT_LOG_OPENED and a == WAL_DAMAGED:
        node.world.counts.damaged += 1
    elif type == EVENT_HOST_STALLED:
        node.world.counts.leases_let_go += 1
    if type != EVENT_TRACE:
        _count_snapshot(node.world, node, type, a, b, c)
        return
    if a & 0xFF == TRACE_BECAME_LEADER:
        truth_leader(node.world, node, a >> 8)
    elif a & 0xFF == TRACE_MEMBERSHIP:
        atlas_note_membership(node.world, b, a >> 8)
    elif a & 0xFF == TRACE_TRANSFER:
        node.world.counts.hand_overs += node.engine.core.free_bytes < node.engine.core.config.free_bytes_min
    elif a & 0xFF == TRACE_TRUNCATED:
        node.world.counts.truncations += 1
        truth_truncated(node, a >> 8, b)


# --- schedule ---------------------------------------------------------------------------------------------------------
# What the disk takes, or the word that it is done; now and then 100 times as long (D9).
cdef uint64_t _disk_ns(World* world, uint64_t least_ns, uint64_t more_ns) noexcept nogil:
    cdef uint64_t wait_ns = least_ns + next_random(&world.random_disk) % (more_ns + 1)
    if world.faults_are_on and next_random(&world.random_disk) % 1_000_000 < world.config.faults.slow_disk_ppm:
        wait_ns *= 100
    return wait_ns


cdef void _plan_disk(World* world, SimNode* node) noexcept nogil:
    if node.jobs_scheduled:
        return
    node.jobs_scheduled = True
    schedule_at(world, SIM_JOBS, node.number, node.life,
                world.now_ns + _disk_ns(world, 20_000, world.config.faults.disk_us * 1000))


# Over several magnitudes: one batch passes a short wait, a change of leaders and its snapshot a long one.
cdef uint64_t _background_wait_ns(World* world) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_background)
    if draw % BACKGROUND_WAITS_1_IN != 0 or not world.faults_are_on:
        return 0
    return (draw >> 16) % ((<uint64_t>world.config.background_us * 1000 >> (draw >> 8) % 8) + 1)


cdef bint _background_is_due(World* world, SimNode* node) noexcept nogil:
    if node.background.first == NULL:
        return False
    if not node.is_wait_drawn:
        node.is_wait_drawn = True
        node.background_ns = world.now_ns + _background_wait_ns(world)
        if node.background_ns > world.now_ns:
            schedule_at(world, SIM_BACKGROUND, node.number, node.life, node.background_ns)
    return node.background_ns <= world.now_ns


cdef DiskJob* _take_step(SimNode* node) noexcept nogil:
    node.is_wait_drawn = False
    node.is_background_next = False
    return order_background(&node.background)


# The disk's next job; NULL: none, or none yet.
cdef DiskJob* _take_jobs(World* world, SimNode* node) noexcept nogil:
    cdef DiskJob* jobs = node.jobs_first
    if node.is_background_next and _background_is_due(world, node):
        return _take_step(node)
    node.jobs_first = node.jobs_last = NULL
    if world.config.background_us == 0:
        return jobs
    jobs = order_arrived(&node.background, jobs)
    if jobs == NULL:
        return _take_step(node) if _background_is_due(world, node) else NULL
    world.counts.overtaken += node.background.first != NULL and node.is_wait_drawn
    node.is_background_next = True
    return jobs


# --- life -------------------------------------------------------------------------------------------------------------
cdef void node_create(World* world, SimNode* node, unsigned int number) noexcept nogil:
    node.world = world
    node.number = number
    node.random = world.config.seed * 31 + number + 1
    checkpoint_wipe(node)
    node.disk = sim_disk_create(next_random(&world.random_disk), world.config.sector_bytes)
    if node.disk == NULL:
        violate(world, VIOLATION_NO_MEMORY, number, 0, 0)


cdef void _fill_config(World* world, SimNode* node, EngineConfig* config) noexcept nogil:
    memcpy(config.name, b"n0", 2)
    config.name[1] += node.number
    config.name_length = 2
    memcpy(config.cluster_name, b"sim", 3)
    config.cluster_name_length = 3
    core_config_init(&config.core, 1, 1)
    config.core.tick_ms = world.config.tick_ms
    config.core.checks = world.config.checks
    config.core.log_memory_bytes_max = world.config.log_memory_bytes or <uint64_t>1 << 40
    config.core.free_bytes_min = world.config.free_bytes_min
    config.core.lease_reads = world.config.lease_reads
    config.core.append_bytes_max = world.config.append_bytes_max
    config.core.election_timeout_ticks = world.config.election_timeout_ticks
    config.core.is_observer = node.number >= member_count(world)
    config.core.feeds_max = world.config.feeds_max or config.core.feeds_max
    if config.core.is_observer:     # nobody knows it before it says who it is
        memcpy(config.address, config.name, config.name_length)
        config.address_length = config.name_length
    config.core.campaigns_early = world.config.campaigns_early
    config.core.heartbeat_ticks = world.config.election_timeout_ticks // 10
    config.machine.value_bytes_max = 1 << 20
    config.machine.session_window = 256
    config.machine.changes_per_slice = 64
    config.tick_ms = world.config.tick_ms
    config.history_bytes_max = world.config.history_bytes_max
    config.names_process = world.config.has_processes
    config.session_ttl_ms = world.config.session_ttl_ms
    config.session_window = world.config.session_window or 256
    config.outstanding_max = world.config.session_window or 128
    config.host_watchdog_ns = <uint64_t>world.config.host_watchdog_ms * MILLION
    config.watch_queue_bytes_max = 1 << 20
    config.apply_slice_ns = 2_000_000
    config.propose_bytes_max = 1 << 16
    config.snapshot_log_bytes = world.config.snapshot_log_bytes or <uint64_t>1 << 40
    config.snapshot_entries = world.config.snapshot_entries or <uint64_t>1 << 60
    config.snapshot_chunk_bytes = world.config.snapshot_chunk_bytes


cdef void _start_clock(World* world, SimNode* node) noexcept nogil:
    cdef uint64_t draw
    node.boot_ns = node.clock_base_ns = world.now_ns
    if world.config.faults.drift_ppm == 0:
        return
    draw = next_random(&world.random_faults)
    node.clock_base_ns = SIM_BEGIN_NS + (draw >> 20) % CLOCK_BASE_NS_MAX
    node.clock_ppm = <int64_t>(draw % (2 * world.config.faults.drift_ppm + 1)) - world.config.faults.drift_ppm


# The peers that a node is made with. An observer knows other observers, too: any of them may feed it.
cdef bint _knows(const World* world, const SimNode* node, uint32_t other) noexcept nogil:
    if node.number < member_count(world):
        return other < member_count(world)
    return other == node.number or world.config.seeds == 0 or other < world.config.seeds


cdef bint _create_parts(World* world, SimNode* node) noexcept nogil:
    cdef WalLimits limits
    cdef uint32_t other
    cdef uint8_t[2] name
    node.engine = <Engine*>calloc(1, sizeof(Engine))
    if node.engine == NULL:
        return False
    _fill_config(world, node, &node.engine.config)
    node.engine.clock.self = node.engine.random.self = node.engine.jobs.self = node.engine.callers.self = node
    node.engine.clock.now_ns = _now_ns
    node.engine.clock.wall_ms = _wall_ms
    node.engine.random.next = _next_random
    node.engine.network = network_port(node)
    node.engine.disk = sim_disk_port(node.disk)
    node.engine.disk.keys = world.keys
    if world.config.has_checkpoints:
        node.engine.checkpoints = checkpoint_port(node)
    node.engine.jobs.submit = _submit_job
    node.engine.callers.claim = _claim
    node.engine.callers.done = _done
    node.engine.callers.woken = _woken
    node.engine.callers.lease_kept = _lease_kept
    node.engine.callers.flush = _flush
    node.engine.callers.readers_left = _readers_left
    node.engine.callers.event = _event
    memset(&limits, 0, sizeof(WalLimits))
    limits.segment_bytes = world.config.segment_bytes
    limits.alignment_bytes = 512 if world.config.sector_bytes <= 512 else 4096
    limits.reserve_bytes = world.config.segment_bytes
    node.wal = wal_create(&node.engine.disk, &limits, next_random(&world.random_disk))
    node.identity = identity_create(&node.engine.disk, node.engine.config.name, 2, node.engine.config.cluster_name, 3)
    if node.wal == NULL or node.identity == NULL:
        return False
    memcpy(name, b"n0", 2)
    for other in range(world.config.nodes):
        name[1] = c'0' + other
        if not _knows(world, node, other):
            continue
        if engine_add_peer(node.engine, name, 2, name, 2, other == node.number) != OK:
            return False
    return True


cdef void _begin_life(World* world, SimNode* node) noexcept nogil:
    node.life += 1
    node.is_cut = False
    node.wake_ns = 0
    node.jobs_scheduled = False
    node.is_background_next = node.is_wait_drawn = False
    node.applied = node.committed = 0
    node.term = 0
    node.next_sequence = 0
    node.session_seen = 0
    node.calls_open = 0
    node.membership_checked = 0
    node.floor_seen = 0
    node.hung_until_ns = 0
    node.host_seen_ns = world.now_ns
    proofs_begin(node)
    _start_clock(world, node)


# Since last asked: was the node right to stop? A damaged disk may refuse what it should have, any time.
cdef bint _disk_has_failed(SimNode* node) noexcept nogil:
    cdef bint has_failed = node.disk.counters.failures != node.failures_seen
    node.failures_seen = node.disk.counters.failures
    return has_failed or node.was_damaged


cdef void _boot_failed(World* world, SimNode* node, status_t status) noexcept nogil:
    node.is_up = True
    if status == POWER_CUT:         # the power failed again while it opened its folder
        node_crash(world, node, True)
    elif status == NO_SPACE or (status == DISK_FAILED and _disk_has_failed(node)):
        node_crash(world, node, False)      # tried again later
    elif world.config.is_ruin and (not is_fatal(status) or world.counts.put_backs != 0):
        _halt(world, node)
    else:
        violate(world, VIOLATION_FATAL, node.number, status, 0)


# After a folder was put back any belief may prove wrong; in ruin a disk may have lost what it had acknowledged.
cdef bint _is_history_lost(World* world, SimNode* node) noexcept nogil:
    if not world.config.is_ruin:
        return False
    world.counts.histories_lost += node.engine.fatal == HISTORY_LOST
    return node.engine.fatal == HISTORY_LOST or world.counts.put_backs != 0


# Its folder cannot be run and nobody can give it another: it keeps its files and says nothing (ruin only).
cdef void _halt(World* world, SimNode* node) noexcept nogil:
    world.counts.halts += 1
    node_crash(world, node, False)
    node.has_halted = True


cdef void node_boot(World* world, SimNode* node) noexcept nogil:
    cdef status_t status
    _begin_life(world, node)
    if not _create_parts(world, node):
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    status = engine_boot(node.engine, node.wal, node.identity)
    if status != OK:
        _boot_failed(world, node, status)
        return
    if node.id != 0 and node.id != node.engine.id:
        world.counts.renewals += 1
        if not node.was_damaged:        # nothing but a damaged medium may cost a member
            violate(world, VIOLATION_RECOVERY, node.number, node.acked_index, 0)
        _end_incarnation(node)
    node.id = node.engine.id
    node.is_up = True
    if node.engine.state == ENGINE_RUNNING:
        truth_recovered(world, node)
    network_node_up(world, node)
    node_run(world, node)


cdef void _drop_jobs(DiskJob* job) noexcept nogil:
    cdef DiskJob* next
    while job != NULL:
        next = job.next
        chunk_drop(job.records.chunk)
        disk_job_destroy(job)
        job = next


cdef void _release(SimNode* node) noexcept nogil:
    if node.wal != NULL:            # it closes its files through the engine's port
        wal_destroy(node.wal)
        node.wal = NULL
    if node.identity != NULL:
        identity_destroy(node.identity)
        node.identity = NULL
    checkpoint_let_go(node)         # it pins a state of the engine's machine
    if node.engine != NULL:
        engine_release(node.engine)
        free(node.engine)
        node.engine = NULL


cdef void node_crash(World* world, SimNode* node, bint is_power_cut) noexcept nogil:
    node.is_cut = True              # nothing it still says is heard
    engine_stop(node.engine, OK)
    workload_forget_node(world, node)
    _drop_jobs(node.jobs_first)
    _drop_jobs(node.jobs_done)
    _drop_jobs(node.background.first)
    node.jobs_first = node.jobs_last = node.jobs_done = node.background.first = NULL
    network_node_down(world, node)
    _release(node)
    node.is_up = False
    node.life += 1
    # It forgets a commit index that was in memory only.
    if node.known.size > node.durable.hard.committed + 1:
        node.known.size = node.durable.hard.committed + 1
    if is_power_cut:
        world.counts.power_cuts += 1
        if sim_disk_crash(node.disk) != OK:
            violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    else:
        world.counts.crashes += 1
        sim_disk_reopen(node.disk)
    # A fault that was to strike this life does not strike the next one, which only opens its folder.
    node.disk.faults.misdirect_at_write = node.disk.faults.lose_at_write = 0
    schedule_after(world, SIM_RESTART, node.number, node.life, world.config.faults.down_us, &world.random_faults)


# Its entries count for what was committed with them; its acknowledgements bind nobody any more.
cdef void _end_incarnation(SimNode* node) noexcept nogil:
    node.former.chains.release()
    node.former.terms.release()
    node.former.damaged.release()
    node.former = node.durable
    node.former_id = node.id
    memset(&node.durable, 0, sizeof(node.durable))
    node.id = 0
    node.acked_index = 0
    node.was_damaged = False
    node.known.clear()


cdef void node_wipe(World* world, SimNode* node) noexcept nogil:
    sim_disk_destroy(node.disk)
    checkpoint_wipe(node)
    _end_incarnation(node)
    node.disk = sim_disk_create(next_random(&world.random_disk), world.config.sector_bytes)
    node.failures_seen = 0
    if node.disk == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)


cdef void node_copy(World* world, SimNode* node) noexcept nogil:
    node.copy_disk = sim_disk_copy(node.disk, next_random(&world.random_disk))
    node.copy_known = node.durable.hard.committed
    if node.copy_disk == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)


cdef void node_put_back(SimNode* node) noexcept nogil:
    sim_disk_destroy(node.disk)
    node.disk = node.copy_disk
    node.copy_disk = NULL
    sim_disk_reopen(node.disk)
    node.failures_seen = node.disk.counters.failures
    node.durable.hard.committed = node.copy_known
    if node.known.size > node.copy_known + 1:
        node.known.size = node.copy_known + 1


cdef void node_destroy(SimNode* node) noexcept nogil:
    if node.engine != NULL:
        node.is_cut = True
        engine_stop(node.engine, OK)
        workload_forget_node(node.world, node)
    _drop_jobs(node.jobs_first)
    _drop_jobs(node.jobs_done)
    _drop_jobs(node.background.first)
    _release(node)
    checkpoint_wipe(node)
    if node.disk != NULL:
        sim_disk_destroy(node.disk)
    if node.copy_disk != NULL:
        sim_disk_destroy(node.copy_disk)
    node.known.release()
    node.durable.chains.release()
    node.durable.terms.release()
    node.durable.damaged.release()
    node.former.chains.release()
    node.former.terms.release()
    node.former.damaged.release()


# --- turns ------------------------------------------------------------------------------------------------------------
# As the thread of Config.host_watchdog_s does while the host's Python goes on.
cdef void _see_host(World* world, SimNode* node) noexcept nogil:
    if world.config.host_watchdog_ms != 0 and node.hung_until_ns <= world.now_ns:
        node.engine.leases.host_ns = _now_ns(node)
        node.host_seen_ns = world.now_ns


cdef void node_run(World* world, SimNode* node) noexcept nogil:
    cdef bint more = True
    cdef status_t status = OK
    cdef uint32_t turns = 0
    cdef uint64_t wake_ns
    _see_host(world, node)
    proofs_look(world, node)
    while more and status == OK and turns < SIM_TURNS_MAX:
        status = engine_run(node.engine, &more)
        turns += 1
    network_look(world, node)
    if node.engine.state == ENGINE_STOPPED and node.engine.fatal == DISK_FAILED and _disk_has_failed(node):
        world.counts.disk_errors += 1
        node_crash(world, node, False)
        return
    if node.engine.state == ENGINE_STOPPED and _is_history_lost(world, node):
        _halt(world, node)
        return
    if node.engine.state == ENGINE_STOPPED or turns == SIM_TURNS_MAX:
        violate(world, VIOLATION_FATAL, node.number, node.engine.fatal, engine_broken(node.engine).what)
        return
    truth_after_run(world, node)
    watches_look(world, node)
    copies_look(world, node)
    wake_ns = max(_world_ns(node, engine_deadline_ns(node.engine)), world.now_ns + 1)
    if node.wake_ns == 0 or wake_ns < node.wake_ns or node.wake_ns <= world.now_ns:
        node.wake_ns = wake_ns
        schedule_at(world, SIM_WAKE, node.number, node.life, wake_ns)


cdef void node_disk(World* world, SimNode* node) noexcept nogil:
    cdef DiskJob* jobs = _take_jobs(world, node)
    node.jobs_done = jobs
    if jobs == NULL:
        node.jobs_scheduled = False
        return
    disk_jobs_run(node.wal, node.identity, jobs)
    world.counts.refused_writes += jobs.status == NO_SPACE
    if node.disk.is_cut:
        node_crash(world, node, True)
        return
    truth_durable(world, node)
    schedule_at(world, SIM_JOBS_DONE, node.number, node.life, world.now_ns + _disk_ns(world, 1000, 100_000))


cdef void node_disk_done(World* world, SimNode* node) noexcept nogil:
    cdef DiskJob* job = node.jobs_done
    cdef DiskJob* next
    node.jobs_done = NULL
    node.jobs_scheduled = False
    while job != NULL:
        next = job.next
        engine_job_done(node.engine, job)
        job = next
    if node.jobs_first != NULL or _background_is_due(world, node):
        _plan_disk(world, node)
    node_run(world, node)


cdef void node_background(World* world, SimNode* node) noexcept nogil:
    _plan_disk(world, node)
