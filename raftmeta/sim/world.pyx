"""The simulated world's loop: one event after the other, checks after each.

What it decides: which fault strikes next, by its own random stream. What it never does: look at a clock, a thread or a
Python object, so that (configuration, seed) is the whole history.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta._core cimport LEADER
from raftmeta.native.chunks cimport chunk_drop
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64, next_random
from raftmeta.ports cimport FileName
from raftmeta.runtime.engine cimport engine_submit
from raftmeta.runtime.engine_state cimport ENGINE_RUNNING, SUBMIT_TRANSFER, Submission
from raftmeta.runtime.snapshot_files cimport sealed_name
from raftmeta.sim.disk cimport sim_disk_flip, sim_disk_write_back
from raftmeta.sim.events cimport (SIM_CLIENT, SIM_CONNECT, SIM_FAULT, SIM_FRAME, SIM_HEAL, SIM_JOBS, SIM_JOBS_DONE,
                                  SIM_RESTART, SIM_ROOM, SIM_WAKE, SimEvent, events_pop, events_push)
from raftmeta.sim.network cimport (network_connect, network_cut, network_deliver, network_heal, network_release,
                                   network_replay)
from raftmeta.sim.nodes cimport (node_boot, node_crash, node_create, node_destroy, node_disk, node_disk_done,
                                 node_is_whole, node_run, node_wipe)
from raftmeta.sim.truth cimport truth_compare_all
from raftmeta.sim.workload cimport workload_call, workload_final, workload_release
from raftmeta.sim.world_state cimport (NO_VIOLATION, SIM_BEGIN_NS, VIOLATION_LIVENESS, VIOLATION_NO_MEMORY, SimConfig,
                                       SimFrame, SimNode, World, violate)
from raftmeta.status cimport OK
from raftmeta.storage.recovery cimport segment_name
from raftmeta.storage.wal_state cimport Segment
from raftmeta.wire.commands cimport command_init
from raftmeta.wire.snapshot_messages cimport SnapshotFile

cdef enum:
    HEAL_NS = 400_000_000       # mean life of a partition
    PAUSE_NS = 800_000_000      # longest pause
    FULL_NS = 500_000_000       # mean time until a full disk has room again
    REPLAYS = 8                 # frames of one replay


cdef void sim_config_init(SimConfig* config, uint64_t seed) noexcept nogil:
    memset(config, 0, sizeof(SimConfig))
    config.seed = seed
    config.nodes = 3
    config.segment_bytes = 64 * 1024
    config.sector_bytes = 512
    config.history_bytes_max = 64 * 1024
    config.session_ttl_ms = 5_000
    config.lease_ttl_ms = 1_000
    config.snapshot_entries = 300
    config.snapshot_chunk_bytes = 2048
    config.election_timeout_ticks = 50
    config.append_bytes_max = 256 * 1024
    config.faults.latency_us = 300
    config.faults.delay_us = 100_000
    config.faults.fault_gap_us = 300_000
    config.faults.down_us = 300_000
    config.faults.disk_us = 300
    config.faults.client_gap_us = 3_000


# --- schedule ---------------------------------------------------------------------------------------------------------
cdef void _plan(World* world, uint32_t kind, uint32_t node, uint64_t life, uint64_t mean_us,
                uint64_t* random) noexcept nogil:
    cdef SimEvent event
    memset(&event, 0, sizeof(SimEvent))
    event.kind = kind
    event.node = node
    event.life = life
    event.time_ns = world.now_ns + 1000 + next_random(random) % (2 * mean_us + 1) * 1000
    if not events_push(&world.events, &event):
        violate(world, VIOLATION_NO_MEMORY, node, 0, 0)


cdef World* world_create(const SimConfig* config) noexcept nogil:
    cdef World* world = <World*> calloc(1, sizeof(World))
    cdef uint64_t random = config.seed
    cdef uint32_t number
    if world == NULL:
        return NULL
    world.config = config[0]
    world.random_network = next_random(&random)
    world.random_disk = next_random(&random)
    world.random_faults = next_random(&random)
    world.random_workload = next_random(&random)
    world.now_ns = SIM_BEGIN_NS
    command_init(&world.command)
    world.faults_are_on = True
    world.clients_are_on = True
    network_heal(world)
    if not world.truth.chains.resize(1) or not world.truth.terms.resize(1):
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
    for number in range(config.nodes):
        node_create(world, &world.nodes[number], number)
    for number in range(config.nodes):
        if world.violation == NO_VIOLATION:
            node_boot(world, &world.nodes[number])
        _plan(world, SIM_CLIENT, number, 0, config.faults.client_gap_us, &world.random_workload)
    _plan(world, SIM_FAULT, 0, 0, config.faults.fault_gap_us, &world.random_faults)
    return world


cdef void world_destroy(World* world) noexcept nogil:
    cdef uint32_t number
    cdef SimEvent event
    cdef SimFrame* frame
    for number in range(world.config.nodes):
        node_destroy(&world.nodes[number])
    while events_pop(&world.events, &event):
        if event.kind == SIM_FRAME:
            frame = <SimFrame*> event.data
            chunk_drop(frame.chunk)
            free(frame)
    world.events.heap.release()
    workload_release(world)
    network_release(world)
    world.truth.chains.release()
    world.truth.terms.release()
    world.truth.state_hashes.release()
    world.truth.revisions.release()
    world.truth.event_hashes.release()
    world.truth.leaders.release()
    world.truth.votes.release()
    world.truth.numbers.release()
    world.truth.files.release()
    world.scratch.release()
    world.items.release()
    free(world)


# --- faults -----------------------------------------------------------------------------------------------------------
cdef bint _draws(World* world, uint32_t ppm) noexcept nogil:
    return next_random(&world.random_faults) % 1_000_000 < ppm


cdef SimNode* _any_node(World* world) noexcept nogil:
    return &world.nodes[next_random(&world.random_faults) % world.config.nodes]


cdef void _crash(World* world, SimNode* node) noexcept nogil:
    if node.is_up:
        node_crash(world, node, next_random(&world.random_faults) & 1)
        _plan_restart(world, node)


cdef void _plan_restart(World* world, SimNode* node) noexcept nogil:
    node.restart_life = node.life
    _plan(world, SIM_RESTART, node.number, node.life, world.config.faults.down_us, &world.random_faults)


cdef void _partition(World* world) noexcept nogil:
    """Halves by a random mask, one direction only in a quarter of the cases."""
    cdef uint64_t draw = next_random(&world.random_faults)
    cdef uint32_t source, target
    cdef bint is_one_way = draw >> 32 & 3 == 0
    world.counts.partitions += 1
    for source in range(world.config.nodes):
        for target in range(world.config.nodes):
            if (draw >> source & 1) == (draw >> target & 1):
                continue
            if not is_one_way or draw >> source & 1:
                network_cut(world, source, target)
    _plan(world, SIM_HEAL, 0, 0, HEAL_NS // 1000, &world.random_faults)


cdef void _cut_at_sync(World* world, SimNode* node) noexcept nogil:
    """Power fails inside one of the node's coming disk calls."""
    cdef uint64_t draw = next_random(&world.random_faults)
    if draw & 1:
        node.disk.faults.cut_at_sync = 1 + (draw >> 8) % 20
        node.disk.faults.cut_after_sync = draw >> 1 & 1
    else:
        node.disk.faults.cut_at_write = 1 + (draw >> 8) % 20


# --- faults of a minority (atlas: what must be survivable, docs/faults.md) ----------------------------------------
cdef bint _may_lose_one(World* world, const SimNode* node) noexcept nogil:
    """May this node's disk fail? Sound copies must form a quorum then, as often as this happens."""
    cdef uint32_t number
    cdef uint32_t suspects = 1
    if not node_is_whole(world, node):
        return False
    for number in range(world.config.nodes):
        if world.nodes[number].is_suspect and node_is_whole(world, &world.nodes[number]):
            world.nodes[number].is_suspect = False
        suspects += world.nodes[number].is_suspect
    return 2 * suspects < world.config.nodes


cdef void _wipe(World* world, SimNode* node) noexcept nogil:
    if not _may_lose_one(world, node):
        return
    world.counts.wipes += 1
    node_crash(world, node, False)
    node_wipe(world, node)
    node.is_suspect = True
    _plan_restart(world, node)


cdef uint64_t _file_to_flip(const SimNode* node, uint64_t draw, FileName* name) noexcept nogil:
    """A segment of the log or the newest sealed file, and how long it is."""
    cdef const Vec[SnapshotFile]* files = &node.engine.snapshots.files
    cdef const Segment* segment
    if files.size != 0 and draw >> 60 & 1:
        sealed_name(files.data[files.size - 1].point.index, name.text)
        return files.data[files.size - 1].size_bytes
    segment = &node.wal.segments.data[draw % node.wal.segments.size]
    segment_name(segment.number, name.text)
    return segment.end


cdef void _flip(World* world, SimNode* node) noexcept nogil:
    """A process dies, the kernel writes back what it left, and a bit of a file does not survive. Not with a power cut:
    both at once may hide that the last batch was acknowledged (docs/decisions/log.md "The mark is not synced with each
    batch"). The power may fail while the damaged log is opened."""
    cdef uint64_t draw = next_random(&world.random_faults)
    cdef uint64_t size_bytes
    cdef FileName name
    if not _may_lose_one(world, node):
        return
    size_bytes = _file_to_flip(node, draw, &name)
    node_crash(world, node, False)
    if sim_disk_write_back(node.disk) != OK:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    if sim_disk_flip(node.disk, name.text, (draw >> 16) % size_bytes, 1 << (draw >> 8) % 8) == OK:
        world.counts.flips += 1
        node.is_suspect = node.was_flipped = True
    _plan_restart(world, node)


# --- faults of calls --------------------------------------------------------------------------------------------------
cdef void _fill_disk(World* world, SimNode* node) noexcept nogil:
    """Nearly nothing fits any more, for a while."""
    cdef uint64_t bytes = 1 + next_random(&world.random_faults) % world.config.segment_bytes
    cdef size_t i
    for i in range(node.disk.files.size):
        if node.disk.files.data[i].in_use:
            bytes += node.disk.files.data[i].cached.size
    world.counts.full_disks += 1
    node.disk.faults.capacity_bytes = bytes
    _plan(world, SIM_ROOM, node.number, 0, FULL_NS // 1000, &world.random_faults)


cdef void _transfer(World* world, SimNode* node) noexcept nogil:
    cdef Submission* submission = <Submission*> calloc(1, sizeof(Submission))
    if submission == NULL:
        return
    submission.kind = SUBMIT_TRANSFER
    submission.number = _any_node(world).id
    world.counts.transfers += 1
    engine_submit(node.engine, submission)
    node_run(world, node)


cdef void _strike(World* world) noexcept nogil:
    """One fault event: each kind strikes with its own rate."""
    cdef SimNode* node = _any_node(world)
    cdef uint32_t number, _number
    if _draws(world, world.config.faults.partition_ppm):
        _partition(world)
    if _draws(world, world.config.faults.crash_ppm):
        _crash(world, node)
    if _draws(world, world.config.faults.crash_all_ppm):
        for number in range(world.config.nodes):
            _crash(world, &world.nodes[number])
    if _draws(world, world.config.faults.cut_at_sync_ppm):
        _cut_at_sync(world, _any_node(world))
    node = _any_node(world)
    if _draws(world, world.config.faults.pause_ppm):
        world.counts.pauses += 1
        node.paused_until_ns = world.now_ns + next_random(&world.random_faults) % PAUSE_NS
    if _draws(world, world.config.faults.transfer_ppm) and node.is_up and not _is_paused(world, node):
        _transfer(world, node)
    if _draws(world, world.config.faults.wipe_ppm):
        _wipe(world, _any_node(world))
    if _draws(world, world.config.faults.flip_ppm):
        _flip(world, _any_node(world))
    if _draws(world, world.config.faults.full_ppm):
        _fill_disk(world, _any_node(world))
    if _draws(world, world.config.faults.replay_ppm):
        for _number in range(REPLAYS):
            network_replay(world, next_random(&world.random_faults))


cdef bint _is_paused(World* world, SimNode* node) noexcept nogil:
    return node.paused_until_ns > world.now_ns


# --- events -----------------------------------------------------------------------------------------------------------
cdef void _handle_node(World* world, SimNode* node, const SimEvent* event) noexcept nogil:
    if event.kind == SIM_WAKE:
        if node.wake_ns == event.time_ns:
            node.wake_ns = 0
        node_run(world, node)
    elif event.kind == SIM_JOBS:
        node_disk(world, node)
    elif event.kind == SIM_JOBS_DONE:
        node_disk_done(world, node)
    elif event.kind == SIM_CONNECT:
        network_connect(world, event)
        if node.is_up:
            node_run(world, node)


cdef void _postpone(World* world, SimEvent* event, uint64_t time_ns) noexcept nogil:
    """A paused node finds everything waiting when it goes on."""
    if event.kind == SIM_WAKE:
        world.nodes[event.node].wake_ns = time_ns
    event.time_ns = time_ns
    if not events_push(&world.events, event):
        violate(world, VIOLATION_NO_MEMORY, event.node, 0, 0)


cdef void _handle(World* world, SimEvent* event) noexcept nogil:
    cdef SimNode* node = &world.nodes[event.node]
    if event.kind == SIM_FAULT:
        if world.faults_are_on:
            _strike(world)
            _plan(world, SIM_FAULT, 0, 0, world.config.faults.fault_gap_us, &world.random_faults)
    elif event.kind == SIM_HEAL:
        network_heal(world)
    elif event.kind == SIM_ROOM:
        node.disk.faults.capacity_bytes = 0
    elif event.kind == SIM_RESTART:
        if not node.is_up and event.life == node.life:
            node_boot(world, node)
    elif event.kind == SIM_CLIENT:
        if node.is_up and not _is_paused(world, node) and world.clients_are_on:
            workload_call(world, node)
            node_run(world, node)
        if world.clients_are_on:
            _plan(world, SIM_CLIENT, node.number, 0, world.config.faults.client_gap_us, &world.random_workload)
    elif _is_paused(world, node):
        _postpone(world, event, node.paused_until_ns + 1)
    elif event.kind == SIM_FRAME:
        network_deliver(world, event)
        if node.is_up and node.engine != NULL:
            node_run(world, node)
    elif node.is_up and event.life == node.life:
        _handle_node(world, node, event)
    if not node.is_up and node.restart_life != node.life and event.kind != SIM_FAULT:
        _plan_restart(world, node)          # it fell by itself: a power cut inside a disk call


cdef uint64_t world_run(World* world, uint64_t events) noexcept nogil:
    cdef SimEvent event
    cdef uint64_t done = 0
    cdef uint64_t[3] line
    while done < events and world.violation == NO_VIOLATION and events_pop(&world.events, &event):
        world.now_ns = max(world.now_ns, event.time_ns)
        line[0] = world.now_ns
        line[1] = event.kind | <uint64_t> event.node << 8 | <uint64_t> event.other << 16
        line[2] = event.life
        world.trace_hash = hash64(world.trace_hash, line, sizeof(line))
        _handle(world, &event)
        done += 1
        world.counts.events += 1
    return done


# --- the end ----------------------------------------------------------------------------------------------------------
cdef bint _is_settled(World* world) noexcept nogil:
    """One leader that all follow, nothing outstanding, everybody applied the same."""
    cdef uint32_t number
    cdef uint32_t leaders = 0
    cdef SimNode* node
    cdef SimNode* first = &world.nodes[0]
    for number in range(world.config.nodes):
        node = &world.nodes[number]
        if not node.is_up or node.engine.state != ENGINE_RUNNING or node.calls_open != 0 or _is_paused(world, node):
            return False
        if not node_is_whole(world, node):
            return False        # a wiped node is a voter again, a damaged one repaired
        if node.engine.core_status.leader == 0 or node.engine.core_status.leader != first.engine.core_status.leader:
            return False
        if node.engine.applied != first.engine.applied or node.engine.applied != node.engine.core_status.last:
            return False
        leaders += node.engine.core_status.role == LEADER
    return leaders == 1


cdef void world_settle(World* world, uint64_t events_max) noexcept nogil:
    cdef uint32_t number
    cdef uint64_t done = 0
    world.faults_are_on = False
    world.clients_are_on = False
    network_heal(world)
    for number in range(world.config.nodes):
        world.nodes[number].paused_until_ns = 0
        memset(&world.nodes[number].disk.faults, 0, sizeof(world.nodes[number].disk.faults))
        if not world.nodes[number].is_up and world.violation == NO_VIOLATION:
            node_boot(world, &world.nodes[number])
    while world.violation == NO_VIOLATION and not _is_settled(world):
        done += world_run(world, 100)
        if done > events_max:
            violate(world, VIOLATION_LIVENESS, 0, done, 0)
    if world.violation == NO_VIOLATION:
        truth_compare_all(world)
        workload_final(world)
