"""Leases under faults: nobody loses one too early, and no keeper believes in one that is gone.

    I17  a lease leaves the state only when the lease clock has reached the deadline that the state showed before, or
         when its process was ended (I60); a deadline never moves back: neither a leader change nor a stall takes time
         while a keeper may believe (until_ns of its engine has not passed), the lease stands in the state of every node
         that knows of it (engine/housekeeping says why). Where clocks drift, less the margin that a keeper keeps back
         for it
         the lease clock never runs ahead of time itself, or of the fastest clock
         where nothing but the leader changes, a lease ends within its ttl and one election time-out after its last
         renewal, however often the leader changes
         no lease is kept for a host that stands still for longer than its watchdog allows (Config.host_watchdog_s)
It must never renew a lease itself. The engine keeps it, as in production (engine/housekeeping).
Sources: decisions/README.md "Leases"; docs/invariants.md I17.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.engine.engine cimport engine_submit
from raftmeta.engine.submission cimport SUBMIT_DROP_LEASE, SUBMIT_KEEP_LEASE, Submission, submission_create
from raftmeta.machine.machine cimport MachineStatus, machine_lease, machine_status
from raftmeta.native.intrinsics cimport next_random
from raftmeta.sim.world.processes cimport processes_are_ended
from raftmeta.sim.world.world_state cimport (FAULT_CALLS, FAULT_TRANSFER, SIM_BEGIN_NS, SIM_LEASES, VIOLATION_FATAL,
                                             VIOLATION_LEASE, VIOLATION_NO_MEMORY, SimFaultRates, SimLeaseTruth,
                                             violate)
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport COMMAND_LEASE_GRANT, Command, command_encode


# The lease's place; with id 0 a free one.
cdef SimLeaseTruth* _place(World* world, uint64_t id) noexcept nogil:
    cdef int i
    for i in range(SIM_LEASES):
        if world.truth.leases[i].id == id:
            return &world.truth.leases[i]
    return NULL


# --- the client's side ------------------------------------------------------------------------------------------------
cdef bint leases_want(World* world, SimNode* node, uint64_t sequence) noexcept nogil:
    cdef Command* command = &world.command
    if node.lease.id != 0 or _place(world, 0) == NULL:
        return False
    node.lease.id = next_random(&world.random_workload) >> 1 | 1
    node.lease.is_asked = True
    node.lease.until_ns = world.now_ns + <uint64_t>world.config.lease_ttl_ms * 1_000_000   # as face/lease
    command.kind = COMMAND_LEASE_GRANT
    command.session = node.engine.session.id
    command.sequence = sequence
    command.lowest_unanswered = node.engine.calls.own.base
    command.id = node.lease.id
    command.ttl_ms = world.config.lease_ttl_ms
    world.scratch.clear()
    if command_encode(command, &world.scratch) != OK:
        violate(world, VIOLATION_FATAL, node.number, 6, sequence)
    return True


cdef void _keep(World* world, SimNode* node) noexcept nogil:
    cdef Submission* submission = submission_create(SUBMIT_KEEP_LEASE, 0)
    if submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    submission.arguments.keep_lease.lease = node.lease.id
    submission.arguments.keep_lease.ttl_ms = world.config.lease_ttl_ms
    submission.arguments.keep_lease.handle = &node.lease
    engine_submit(node.engine, submission)


cdef void _drop(World* world, SimNode* node) noexcept nogil:
    cdef Submission* submission = submission_create(SUBMIT_DROP_LEASE, 0)
    if submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    submission.arguments.drop_lease.lease = node.lease.id
    engine_submit(node.engine, submission)


cdef void leases_granted(World* world, SimNode* node, index_t index) noexcept nogil:
    cdef SimLeaseTruth* place = _place(world, 0)
    node.lease.is_asked = False
    world.counts.leases_granted += 1
    if place != NULL:           # else another client took the last one: this lease is kept, and not watched
        place.id = node.lease.id
        place.keeper = node.number
        place.keeper_id = node.engine.id
        place.keeper_boot = node.engine.boot
        place.seen_index = index
        place.deadline_ms = 0
    _keep(world, node)


cdef void leases_refused(SimNode* node) noexcept nogil:
    memset(&node.lease, 0, sizeof(node.lease))


# A lease may not be kept while the host has stood still for longer than the watchdog allows.
cdef void _check_host(World* world, SimNode* node, uint64_t until_ns) noexcept nogil:
    cdef uint64_t most_ns = <uint64_t>(world.config.host_watchdog_ms + world.config.lease_ttl_ms) * 1_000_000
    most_ns += most_ns // 1_000_000 * 2 * world.config.faults.drift_ppm + 2_000_000
    if world.config.host_watchdog_ms != 0 and until_ns > node.host_seen_ns + most_ns:
        violate(world, VIOLATION_LEASE, node.number, until_ns, node.host_seen_ns)


cdef void leases_kept(World* world, SimNode* node, SimLease* lease, uint64_t until_ns) noexcept nogil:
    world.counts.lease_renewals += 1
    _check_host(world, node, until_ns)
    lease.until_ns = until_ns
    if until_ns == 0:
        lease.id = 0


cdef void leases_drop(World* world, SimNode* node) noexcept nogil:
    if node.lease.id == 0 or node.lease.is_asked:
        return
    _drop(world, node)
    memset(&node.lease, 0, sizeof(node.lease))


cdef void leases_forget(SimNode* node) noexcept nogil:
    memset(&node.lease, 0, sizeof(node.lease))


# --- what the state shows ---------------------------------------------------------------------------------------------
# What a keeper holds back of its belief for clocks that drift (face/lease, 5 %); these stay within.
cdef uint64_t _drift_ns(const World* world) noexcept nogil:
    return <uint64_t>world.config.lease_ttl_ms * 50_000 if world.config.faults.drift_ppm != 0 else 0


# No fault but transfers of leadership, and networks, disks and clocks as they should be. The end of a world cuts nodes
# off, maybe the leader, so that a majority is healed alone first: from then on an election may come between.
cdef bint _only_leaders_change(const World* world) noexcept nogil:
    cdef SimFaultRates rates = world.config.faults
    cdef const uint32_t* places = <const uint32_t*>&rates
    cdef size_t i
    rates.transfer_ppm = rates.fault_gap_us = rates.down_us = rates.disk_us = rates.client_gap_us = 0
    rates.delay_us = rates.latency_us = 0
    for i in range(sizeof(SimFaultRates) // sizeof(uint32_t)):
        if places[i] != 0:
            return False
    for i in range(world.tape.size):    # a tape, or whoever drives the world, needs no rates
        if world.tape.data[i].kind != FAULT_TRANSFER and world.tape.data[i].kind != FAULT_CALLS:
            return False
    return world.config.turn_us == 0 and world.counts.cores == 0


cdef void _check_late(World* world, SimNode* node, const SimLeaseTruth* lease) noexcept nogil:
    cdef uint64_t timeout_ms = <uint64_t>world.config.election_timeout_ticks * world.config.tick_ms
    cdef uint64_t most_ms = world.config.lease_ttl_ms + timeout_ms
    if world.now_ns > lease.renewed_ns + most_ms * 1_000_000 and _only_leaders_change(world):
        violate(world, VIOLATION_LEASE, node.number, world.now_ns, lease.renewed_ns)


cdef void _check_gone(World* world, SimNode* node, SimLeaseTruth* lease, uint64_t lease_ms) noexcept nogil:
    cdef SimNode* keeper = &world.nodes[lease.keeper]
    cdef bint is_freed = processes_are_ended(world, lease.keeper_id, lease.keeper_boot, node.engine.applying.applied)
    if lease_ms < lease.deadline_ms and not is_freed:
        violate(world, VIOLATION_LEASE, node.number, lease_ms, lease.deadline_ms)
    if keeper.lease.id == lease.id and keeper.lease.until_ns > world.now_ns + _drift_ns(world):
        violate(world, VIOLATION_LEASE, node.number, keeper.lease.until_ns, world.now_ns)
    _check_late(world, node, lease)
    world.counts.leases_freed += lease_ms < lease.deadline_ms
    world.counts.leases_expired += lease_ms >= lease.deadline_ms
    memset(lease, 0, sizeof(SimLeaseTruth))


cdef void leases_check(World* world, SimNode* node) noexcept nogil:
    cdef MachineStatus machine
    cdef SimLeaseTruth* lease
    cdef uint64_t ttl_ms, deadline_ms, passed_ms
    cdef uint32_t key_count
    cdef int i
    machine_status(node.engine.machine, &machine)
    passed_ms = (world.now_ns - SIM_BEGIN_NS) // 1_000_000
    if machine.lease_ms > passed_ms + passed_ms * world.config.faults.drift_ppm // 1_000_000 + 1:
        violate(world, VIOLATION_LEASE, node.number, machine.lease_ms, world.now_ns)
    for i in range(SIM_LEASES):
        lease = &world.truth.leases[i]
        if lease.id == 0 or node.engine.applying.applied < lease.seen_index:
            continue            # an older state: it may not know this lease yet
        if machine_lease(node.engine.machine, lease.id, &ttl_ms, &deadline_ms, &key_count) != OK:
            _check_gone(world, node, lease, machine.lease_ms)
            continue
        if deadline_ms < lease.deadline_ms:
            violate(world, VIOLATION_LEASE, node.number, deadline_ms, lease.deadline_ms)
        if deadline_ms != lease.deadline_ms:
            lease.renewed_ns = world.now_ns
        _check_late(world, node, lease)
        lease.seen_index = node.engine.applying.applied
        lease.deadline_ms = deadline_ms
