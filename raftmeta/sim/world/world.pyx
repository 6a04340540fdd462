"""The simulated world's loop: one event after the other, checks after each.

It decides to whom an event goes, and when. It must never look at a clock, a thread or a Python object, so
that (configuration, seed) is the whole history.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta.native.chunks cimport chunk_drop
from raftmeta.native.intrinsics cimport hash64, next_random
from raftmeta.security.cipher cimport (FORMAT_KEY_BYTES, key_id_of, key_ring_add, key_ring_create, key_ring_destroy,
                                       key_ring_use)
from raftmeta.sim.world.buggify cimport buggify_begin, buggify_enter, buggify_leave
from raftmeta.sim.world.clients cimport clients_act
from raftmeta.sim.world.doors cimport doors_act
from raftmeta.sim.world.events cimport (SIM_BACKGROUND, SIM_CLIENT, SIM_CONNECT, SIM_COPY, SIM_FAULT, SIM_FRAME,
                                        SIM_HEAL, SIM_JOBS, SIM_JOBS_DONE, SIM_REST, SIM_RESTART, SIM_REVEAL, SIM_ROOM,
                                        SIM_SENDING, SIM_WAKE, SimEvent, events_pop)
from raftmeta.sim.world.group_clients cimport group_clients_act
from raftmeta.sim.world.groups_check cimport groups_begin
from raftmeta.sim.world.topic_clients cimport topic_clients_act
from raftmeta.sim.world.topics_check cimport topics_begin
from raftmeta.sim.world.faults cimport faults_heal, faults_reveal, faults_strike
from raftmeta.sim.world.memberships cimport memberships_release
from raftmeta.sim.world.processes cimport processes_release
from raftmeta.sim.world.network cimport network_connect, network_deliver, network_heal, network_release
from raftmeta.sim.world.nodes cimport (node_background, node_boot, node_create, node_destroy, node_disk, node_disk_done,
                                       node_run)
from raftmeta.sim.world.principals cimport principals_act
from raftmeta.sim.world.points cimport points_release
from raftmeta.sim.world.read_proofs cimport proofs_release
from raftmeta.sim.world.rests cimport rests_begin, rests_plan
from raftmeta.sim.world.schedule cimport schedule, schedule_after
from raftmeta.sim.world.story cimport story_after, story_before
from raftmeta.sim.world.user_copies cimport copies_run
from raftmeta.sim.world.workload cimport workload_call, workload_release
from raftmeta.sim.world.world_state cimport (NO_VIOLATION, SIM_BEGIN_NS, SIM_CLIENTS, VIOLATION_NO_MEMORY, SimConfig,
                                             SimFrame, SimNode, World, violate)
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport command_init


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
    config.tick_ms = 10
    config.election_timeout_ticks = 50
    config.append_bytes_max = 256 * 1024
    config.client_window = 1
    config.faults.latency_us = 300
    config.faults.delay_us = 100_000
    config.faults.fault_gap_us = 300_000
    config.faults.down_us = 300_000
    config.faults.disk_us = 300
    config.faults.client_gap_us = 3_000


# --- life -------------------------------------------------------------------------------------------------------------
# One key for all nodes, of the world's seed, and "random" numbers that are the same again.
cdef bint _make_keys(World* world, uint64_t seed) noexcept nogil:
    cdef uint8_t[FORMAT_KEY_BYTES] key
    cdef uint64_t word
    cdef uint32_t i
    world.keys = key_ring_create(seed | 1)
    if world.keys == NULL:
        return False
    for i in range(<uint32_t>FORMAT_KEY_BYTES // 8):
        word = next_random(&seed)
        memcpy(key + 8 * i, &word, sizeof(word))
    return key_ring_add(world.keys, key) == OK and key_ring_use(world.keys, key_id_of(key)) == OK


cdef World* world_create(const SimConfig* config) noexcept nogil:
    cdef World* world = <World*>calloc(1, sizeof(World))
    cdef uint64_t random = config.seed
    cdef uint32_t number
    if world == NULL:
        return NULL
    world.config = config[0]
    world.random_network = next_random(&random)
    world.random_disk = next_random(&random)
    world.random_faults = next_random(&random)
    world.random_workload = next_random(&random)
    world.random_rests = next_random(&random)
    world.random_users = next_random(&random)
    world.random_background = next_random(&random)
    world.now_ns = SIM_BEGIN_NS
    if config.encrypts and not _make_keys(world, next_random(&random)):
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
    if config.has_rights:
        world.random_rights = next_random(&random)
    if config.has_znodes:
        world.random_znodes = next_random(&random)
    if config.has_groups:
        world.random_groups = next_random(&random)
    if config.has_topics:
        world.random_topics = next_random(&random)
        topics_begin(world)
    if config.has_groups or config.has_topics:
        groups_begin(world)
    command_init(&world.command)
    command_init(&world.rights.command)
    command_init(&world.znodes.command)
    world.faults_are_on = True
    world.clients_are_on = True
    network_heal(world)
    if not world.truth.chains.resize(1) or not world.truth.terms.resize(1):
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
    for number in range(config.nodes):
        node_create(world, &world.nodes[number], number)
    buggify_begin(world)
    buggify_enter(world)
    for number in range(config.nodes):
        if world.violation == NO_VIOLATION:
            node_boot(world, &world.nodes[number])
        schedule_after(world, SIM_CLIENT, number, 0, config.faults.client_gap_us, &world.random_workload)
    for number in range(<uint32_t>SIM_CLIENTS):
        schedule_after(world, SIM_SENDING, 0, number, 2 * config.faults.client_gap_us, &world.random_workload)
    schedule_after(world, SIM_FAULT, 0, 0, config.faults.fault_gap_us, &world.random_faults)
    rests_plan(world)
    buggify_leave()
    return world


cdef void world_destroy(World* world) noexcept nogil:
    cdef uint32_t number
    cdef SimEvent event
    cdef SimFrame* frame
    for number in range(world.config.nodes):
        node_destroy(&world.nodes[number])
    while events_pop(&world.events, &event):
        if event.kind == SIM_FRAME:
            frame = <SimFrame*>event.data
            chunk_drop(frame.chunk)
            free(frame)
    world.events.heap.release()
    workload_release(world)
    network_release(world)
    world.truth.chains.release()
    world.truth.terms.release()
    world.truth.committed_in.release()
    world.truth.state_hashes.release()
    world.truth.revisions.release()
    world.truth.event_hashes.release()
    world.truth.is_quiet.release()
    world.truth.leaders.release()
    world.truth.votes.release()
    world.truth.numbers.release()
    world.truth.files.release()
    memberships_release(world)
    processes_release(world)
    points_release(world)
    proofs_release(world)
    key_ring_destroy(world.keys)
    world.scratch.release()
    world.items.release()
    world.tape.release()
    world.script.release()
    world.story.release()
    free(world)


cdef bint _is_paused(World* world, SimNode* node) noexcept nogil:
    return node.paused_until_ns > world.now_ns


# The loop's next turn is not yet due (SimConfig.turn_us); else all that happens at this moment belongs to it. The
# write thread goes on.
cdef bint _is_late(World* world, SimNode* node, const SimEvent* event) noexcept nogil:
    if world.config.turn_us == 0 or not world.faults_are_on or event.kind == SIM_JOBS:
        return False
    if world.now_ns == node.turn_ns:
        return False
    if world.now_ns < node.turn_ns + <uint64_t>world.config.turn_us * 1000:
        return True
    node.turn_ns = world.now_ns
    return False


# --- events -----------------------------------------------------------------------------------------------------------
cdef void _handle_node(World* world, SimNode* node, const SimEvent* event) noexcept nogil:
    if event.kind == SIM_WAKE:
        if node.wake_ns == event.time_ns:
            node.wake_ns = 0
        node_run(world, node)
    elif event.kind == SIM_COPY:
        copies_run(world, node)
        node_run(world, node)
    elif event.kind == SIM_JOBS:
        node_disk(world, node)
    elif event.kind == SIM_JOBS_DONE:
        node_disk_done(world, node)
    elif event.kind == SIM_BACKGROUND:
        node_background(world, node)
    elif event.kind == SIM_CONNECT:
        network_connect(world, event)
        if node.is_up:
            node_run(world, node)


# A paused node finds everything waiting when it goes on.
cdef void _postpone(World* world, SimEvent* event, uint64_t time_ns) noexcept nogil:
    if event.kind == SIM_WAKE:
        world.nodes[event.node].wake_ns = time_ns
    event.time_ns = time_ns
    schedule(world, event)


cdef void _client_acts(World* world, uint32_t number) noexcept nogil:
    cdef uint32_t nodes = clients_act(world, number)
    cdef uint32_t i
    if world.config.has_rights:
        nodes |= principals_act(world)
    if world.config.has_znodes:
        nodes |= doors_act(world)
    if world.config.has_groups:
        nodes |= group_clients_act(world)
    if world.config.has_topics:
        nodes |= topic_clients_act(world)
    for i in range(world.config.nodes):
        if nodes >> i & 1 and world.config.turn_us == 0:    # else they find it in their next turn
            node_run(world, &world.nodes[i])
    schedule_after(world, SIM_SENDING, 0, number, 2 * world.config.faults.client_gap_us, &world.random_workload)


cdef void _handle(World* world, SimEvent* event) noexcept nogil:
    cdef SimNode* node = &world.nodes[event.node]
    if event.kind == SIM_FAULT:
        if world.faults_are_on:
            faults_strike(world)
            schedule_after(world, SIM_FAULT, 0, 0, world.config.faults.fault_gap_us, &world.random_faults)
    elif event.kind == SIM_HEAL:
        faults_heal(world, event)
    elif event.kind == SIM_REVEAL:
        faults_reveal(world, event)
    elif event.kind == SIM_ROOM:
        node.disk.faults.capacity_bytes = 0
    elif event.kind == SIM_RESTART:
        if not node.is_up and event.life == node.life:
            node_boot(world, node)
    elif event.kind == SIM_REST:
        rests_begin(world)
    elif event.kind in (SIM_CLIENT, SIM_SENDING) and world.rest_until_ns > world.now_ns:
        _postpone(world, event, world.rest_until_ns)
    elif event.kind == SIM_CLIENT and node.is_up and _is_late(world, node, event):
        _postpone(world, event, node.turn_ns + <uint64_t>world.config.turn_us * 1000)
    elif event.kind == SIM_CLIENT:
        if (node.is_up and not _is_paused(world, node) and node.hung_until_ns <= world.now_ns
                and world.clients_are_on):
            workload_call(world, node)
            node_run(world, node)
        if world.clients_are_on:
            schedule_after(world, SIM_CLIENT, node.number, 0, world.config.faults.client_gap_us, &world.random_workload)
    elif event.kind == SIM_SENDING:
        if world.clients_are_on:
            _client_acts(world, <uint32_t>event.life)
    elif _is_paused(world, node):
        _postpone(world, event, node.paused_until_ns + 1)
    elif _is_late(world, node, event):
        _postpone(world, event, node.turn_ns + <uint64_t>world.config.turn_us * 1000)
    elif event.kind == SIM_FRAME:
        network_deliver(world, event)
        if node.is_up and node.engine != NULL:
            node_run(world, node)
    elif node.is_up and event.life == node.life:
        _handle_node(world, node, event)


cdef uint64_t world_run(World* world, uint64_t events) noexcept nogil:
    cdef SimEvent event
    cdef uint64_t done = 0
    cdef uint64_t[3] line
    buggify_enter(world)
    while done < events and world.violation == NO_VIOLATION and events_pop(&world.events, &event):
        world.now_ns = max(world.now_ns, event.time_ns)
        line[0] = world.now_ns
        line[1] = event.kind | <uint64_t>event.node << 8 | <uint64_t>event.other << 16
        line[2] = event.life
        world.trace_hash = hash64(world.trace_hash, line, sizeof(line))
        if world.story_is_on:
            story_before(world, &event)
        _handle(world, &event)
        if world.story_is_on:
            story_after(world)
        done += 1
        world.counts.events += 1
    buggify_leave()
    return done
