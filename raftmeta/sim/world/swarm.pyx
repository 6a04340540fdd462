"""Swarm profiles: which faults a world has, and how often, chosen by its seed.

A dense world has each fault or not, by the toss of a coin, at a rate of its own. An omitted fault lets another one
reach deep (docs/faults.md). A sparse world has two to six kinds of faults and no other, most of them at rates far
above those of a dense world. Some mistakes need three kinds in a row: among ten others, that row seldom comes whole.
Half of all seeds are sparse. This file never draws from a stream of the running world.
"""

from libc.stdint cimport uint32_t, uint64_t

from raftmeta.machine.state cimport LEVEL_OF_GROUPS
from raftmeta.native.intrinsics cimport next_random
from raftmeta.sim.world.buggify cimport buggify_draw
from raftmeta.sim.world.world_state cimport SIM_NODES_MAX, SimFaultRates

cdef enum:
    REST_STREAM = 0x2e57
    USER_STREAM = 0x05e4
    USER_LARGE_PPM = 31_250
    ROT_STREAM = 0x0207
    BACKGROUND_STREAM = 0xbac6
    EARLY_STREAM = 0xea51
    OPTION_STREAM = 0x0971
    HANG_STREAM = 0x4a26
    ENCRYPTION_STREAM = 0xc1f3
    RIGHTS_STREAM = 0x2165
    ZNODES_STREAM = 0x20de
    GROUPS_STREAM = 0x6209
    TOPICS_STREAM = 0x70b1
    LEVEL_STREAM = 0x1e7e
    PROCESSES_STREAM = 0x92ce55
    OBSERVERS_STREAM = 0x0b5e
    OBSERVERS_MAX = 4           # enough for a chain of three
    KIND_STREAM = 0x51de
    SPARSE_STREAM = 0x59a5
    SPARSE_KINDS_MIN = 2
    SPARSE_KINDS_MAX = 6
    # These kinds stand first in _place: they move leaders and members. Most rows of faults that broke an invariant were
    # made of them, so half of all sparse worlds have no others, and several of these.
    SPARSE_MOVERS = 6
    SPARSE_MOVERS_MIN = 4
    SPARSE_EVENTS = 17          # kinds before this place are kinds of fault events; behind it, faults of frames
    SPARSE_KINDS = 24


# 0 in half of the cases, else between a tenth of most_ppm and most_ppm.
cdef uint32_t _rate(uint64_t* random, uint32_t most_ppm) noexcept nogil:
    cdef uint64_t draw = next_random(random)
    if draw & 1:
        return 0
    return most_ppm // 10 + <uint32_t>((draw >> 1) % (most_ppm - most_ppm // 10))


# 1 to 7 nodes, most often 3.
cdef uint32_t _size(uint64_t* random) noexcept nogil:
    cdef uint64_t draw = next_random(random) % 10
    return <uint32_t>draw + 1 if draw < 7 else <uint32_t>3


# Three worlds of four know quiet hours; most of these are slower: heartbeats of 10 to 320 ms.
cdef void _draw_rests(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ REST_STREAM
    cdef uint32_t pace
    if next_random(&random) % 4 == 0:
        return
    pace = <uint32_t>1 << next_random(&random) % 4
    config.rest_us = <uint32_t>16_000_000 << next_random(&random) % 3
    config.busy_us = config.faults.client_gap_us << 3 + next_random(&random) % 4
    config.tick_ms *= pace
    config.faults.fault_gap_us *= pace
    config.faults.down_us *= pace


# A user machine in one world of four, large commands in one of sixteen: tails long enough for a dump are dear.
cdef void _draw_users(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ USER_STREAM
    config.has_users = next_random(&random) % 4 == 0
    if config.has_users and next_random(&random) % 4 == 0:
        config.user_large_ppm = USER_LARGE_PPM


cdef void _draw_rot(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ ROT_STREAM
    config.faults.rot_ppm = _rate(&random, 150_000)


# Every world keeps production's order; in half of them the background waits no longer than it must.
cdef void _draw_background(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ BACKGROUND_STREAM
    config.background_us = 1
    if next_random(&random) & 1:
        config.background_us = <uint32_t>15_625 << next_random(&random) % 8


cdef uint32_t _hang_rate(const SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ HANG_STREAM
    return _rate(&random, 200_000)


# Three worlds of four elect as soon as they may; in the others more happens while nobody leads.
cdef void _draw_early(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ EARLY_STREAM
    config.campaigns_early = next_random(&random) % 4 != 0


# Files are encrypted in one world of eight.
cdef bint _encrypts(const SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ ENCRYPTION_STREAM
    return next_random(&random) % 8 == 0


# Rights are on in one world of eight.
cdef bint _has_rights(const SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ RIGHTS_STREAM
    return next_random(&random) % 8 == 0


# Doors ask for znodes in one world of eight.
cdef bint _has_znodes(const SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ ZNODES_STREAM
    return next_random(&random) % 8 == 0


# Worker groups are in one world of eight. Such a world has no znodes: the model of znodes tells leases that it does not
# know apart by their deadlines, and a group has many of these.
cdef bint _has_groups(const SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ GROUPS_STREAM
    return next_random(&random) % 7 == 0 and not config.has_znodes


# Topics are in one world of eight, and half of these have worker groups, whose members commit offsets.
cdef bint _has_topics(const SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ TOPICS_STREAM
    return next_random(&random) % (2 if config.has_groups else 14) == 0


# Most nodes are of an older release at first in one world of four with groups or topics: they know groups, or not yet.
cdef void _draw_level(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ LEVEL_STREAM
    cdef uint64_t draw = next_random(&random)
    if draw & 3:
        return
    config.old_level = LEVEL_OF_GROUPS - (draw >> 2 & 3 == 0)
    config.upgrade_ms = <uint32_t>250 << (draw >> 8) % 6


# Sessions and leases end with their process in half of the worlds.
cdef bint _has_processes(const SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ PROCESSES_STREAM
    return next_random(&random) & 1 != 0


# Observers are in one world of eight: beside its members, or in the place of the last ones where all places are taken.
cdef void _draw_observers(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ OBSERVERS_STREAM
    cdef uint64_t draw = next_random(&random)
    if draw & 7:
        return
    config.observers = <uint32_t>1 + <uint32_t>(draw >> 8) % OBSERVERS_MAX
    config.nodes = min(config.nodes + config.observers, <uint32_t>SIM_NODES_MAX)
    # In half of these worlds a node feeds one or two, in half an observer knows few nodes when it is made.
    if draw >> 16 & 1:
        config.feeds_max = 1 + <uint32_t>(draw >> 17 & 1)
    if draw >> 20 & 1:
        config.seeds = 1 + <uint32_t>(draw >> 24) % (config.nodes - config.observers)


# --- options ----------------------------------------------------------------------------------------------------------
# Options of Config that are not the default: each in one world of four, hand-overs of a full leader in half.
cdef void _draw_options(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ OPTION_STREAM
    cdef uint64_t draw = next_random(&random)
    config.lease_reads = draw & 3 == 0
    config.free_bytes_min = config.segment_bytes if draw >> 2 & 1 else 0
    if draw >> 3 & 3 == 0:
        config.log_memory_bytes = <uint64_t>1024 << (draw >> 8) % 8
    if draw >> 5 & 3 == 0:
        config.snapshot_log_bytes = <uint64_t>1024 << (draw >> 16) % 8
    if draw >> 24 & 3 == 0:
        config.host_watchdog_ms = <uint32_t>100 << (draw >> 32) % 5
    if draw >> 26 & 3 == 0:
        config.session_window = <uint32_t>4 << (draw >> 40) % 5
    if draw >> 28 & 1:
        config.client_window = <uint32_t>2 << (draw >> 48) % 3
    config.ends_silently = draw >> 29 & 1
    config.encrypts = _encrypts(config)
    config.has_rights = _has_rights(config)
    config.has_znodes = _has_znodes(config)
    config.has_groups = _has_groups(config)
    config.has_topics = _has_topics(config)
    if config.has_groups or config.has_topics:
        _draw_level(config)
    config.has_processes = _has_processes(config)
    _draw_observers(config)


# --- dense worlds -----------------------------------------------------------------------------------------------------
cdef void _draw_dense(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed     # not the streams of world_create
    config.nodes = _size(&random)
    config.segment_bytes = <uint32_t>16384 << next_random(&random) % 3 * 2
    config.sector_bytes = 512 if next_random(&random) % 4 else 4096
    config.history_bytes_max = <uint64_t>4096 << next_random(&random) % 4
    config.lease_ttl_ms = 400 + <uint32_t>(next_random(&random) % 2000)
    config.faults.drop_ppm = _rate(&random, 100_000)
    config.faults.duplicate_ppm = _rate(&random, 50_000)
    config.faults.reorder_ppm = _rate(&random, 20_000)
    config.faults.delay_ppm = _rate(&random, 50_000)
    config.faults.partition_ppm = _rate(&random, 400_000)
    config.faults.crash_ppm = _rate(&random, 300_000)
    config.faults.crash_all_ppm = _rate(&random, 50_000)
    config.faults.cut_at_sync_ppm = _rate(&random, 300_000)
    config.faults.pause_ppm = _rate(&random, 200_000)
    config.faults.transfer_ppm = _rate(&random, 300_000)
    config.faults.slow_disk_ppm = _rate(&random, 30_000)
    config.faults.wipe_ppm = _rate(&random, 60_000)
    config.faults.flip_ppm = _rate(&random, 150_000)
    config.faults.full_ppm = _rate(&random, 100_000)
    config.faults.replay_ppm = _rate(&random, 500_000)
    config.snapshot_entries = <uint32_t>4 << next_random(&random) % 9
    config.snapshot_chunk_bytes = <uint32_t>512 << next_random(&random) % 5
    config.election_timeout_ticks = <uint32_t>10 << next_random(&random) % 3
    config.append_bytes_max = <uint32_t>64 << next_random(&random) % 4 * 4
    config.faults.isolate_ppm = _rate(&random, 300_000)
    config.faults.membership_ppm = _rate(&random, 500_000)
    config.faults.misdirect_ppm = _rate(&random, 60_000)
    config.faults.disk_error_ppm = _rate(&random, 100_000)
    config.faults.corrupt_ppm = _rate(&random, 20_000)
    config.faults.drift_ppm = _rate(&random, 20_000)
    config.faults.wall_ppm = _rate(&random, 200_000)
    # Busy clients fill the events with calls, and little else happens; idle ones leave few entries to lose.
    config.faults.client_gap_us = <uint32_t>1_000 << next_random(&random) % 6
    config.faults.fault_gap_us = <uint32_t>80_000 << next_random(&random) % 4
    config.faults.down_us = <uint32_t>50_000 << next_random(&random) % 4
    config.has_checkpoints = next_random(&random) & 1
    # Choices that were added later draw from streams of their own: older choices of a seed stay as they are.
    buggify_draw(config)
    _draw_rests(config)
    _draw_users(config)
    _draw_rot(config)
    _draw_background(config)
    _draw_early(config)
    config.faults.hang_ppm = _hang_rate(config)


# --- sparse worlds ----------------------------------------------------------------------------------------------------
ctypedef uint32_t* Rate


cdef Rate _place(SimFaultRates* rates, uint32_t kind) noexcept nogil:
    cdef Rate[SPARSE_KINDS] places
    places[0] = &rates.partition_ppm
    places[1] = &rates.isolate_ppm
    places[2] = &rates.crash_ppm
    places[3] = &rates.transfer_ppm
    places[4] = &rates.wipe_ppm
    places[5] = &rates.membership_ppm
    places[6] = &rates.crash_all_ppm
    places[7] = &rates.cut_at_sync_ppm
    places[8] = &rates.pause_ppm
    places[9] = &rates.wall_ppm
    places[10] = &rates.flip_ppm
    places[11] = &rates.rot_ppm
    places[12] = &rates.misdirect_ppm
    places[13] = &rates.disk_error_ppm
    places[14] = &rates.full_ppm
    places[15] = &rates.replay_ppm
    places[16] = &rates.hang_ppm
    places[17] = &rates.drop_ppm
    places[18] = &rates.duplicate_ppm
    places[19] = &rates.corrupt_ppm
    places[20] = &rates.reorder_ppm
    places[21] = &rates.delay_ppm
    places[22] = &rates.slow_disk_ppm
    places[23] = &rates.drift_ppm
    return places[kind]


# 10 % to 90 % of fault events. Of frames and syncs a tenth as many, or nothing but time-outs would happen; clocks
# drift by 0.2 % to 1.8 %.
cdef uint32_t _sparse_rate(uint64_t draw, uint32_t kind) noexcept nogil:
    cdef uint32_t ppm = 100_000 * <uint32_t>(1 + draw % 9)
    if kind < <uint32_t>SPARSE_EVENTS:
        return ppm
    return ppm // 10 if kind != SPARSE_KINDS - 1 else ppm // 50


cdef void _draw_sparse_faults(SimConfig* config, uint64_t* random) noexcept nogil:
    cdef uint32_t choices = SPARSE_MOVERS if next_random(random) >> 32 & 1 else SPARSE_KINDS
    cdef uint32_t least = SPARSE_MOVERS_MIN if choices == SPARSE_MOVERS else SPARSE_KINDS_MIN
    cdef uint32_t left = least + <uint32_t>(next_random(random) % (SPARSE_KINDS_MAX - least + 1))
    cdef uint32_t kind
    cdef Rate rate
    while left != 0:
        kind = <uint32_t>(next_random(random) % choices)
        rate = _place(&config.faults, kind)
        if rate[0] == 0:
            rate[0] = _sparse_rate(next_random(random), kind)
            left -= 1


# Few nodes of odd number, short time-outs, faults close to each other, clients that leave room between them.
cdef void _draw_sparse(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ SPARSE_STREAM
    config.nodes = 7 - 2 * <uint32_t>(next_random(&random) % 5 // 2)      # three in one of five
    config.segment_bytes = <uint32_t>16384 << next_random(&random) % 3 * 2
    config.history_bytes_max = <uint64_t>4096 << next_random(&random) % 5
    config.lease_ttl_ms = 400 + <uint32_t>(next_random(&random) % 2000)
    config.snapshot_entries = <uint32_t>4 << next_random(&random) % 9
    config.snapshot_chunk_bytes = <uint32_t>512 << next_random(&random) % 5
    config.election_timeout_ticks = <uint32_t>10 << next_random(&random) % 4 // 3
    if next_random(&random) & 1:
        config.append_bytes_max = <uint32_t>64 << next_random(&random) % 3 * 4
    config.faults.client_gap_us = <uint32_t>5_000 << next_random(&random) % 4
    config.faults.fault_gap_us = <uint32_t>40_000 << next_random(&random) % 4
    config.faults.down_us = <uint32_t>25_000 << next_random(&random) % 4
    config.has_checkpoints = next_random(&random) & 1
    config.campaigns_early = next_random(&random) & 1
    config.background_us = 1
    _draw_sparse_faults(config, &random)


cdef bint _is_sparse(uint64_t seed) noexcept nogil:
    cdef uint64_t random = ~seed ^ KIND_STREAM
    return next_random(&random) >> 32 & 1


cdef void swarm_config(SimConfig* config, SwarmKind kind) noexcept nogil:
    if kind == SWARM_SPARSE or (kind == SWARM_EITHER and _is_sparse(config.seed)):
        _draw_sparse(config)
    else:
        _draw_dense(config)
    _draw_options(config)
