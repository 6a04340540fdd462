"""Swarm profiles: each fault is there or not, by the toss of a coin, and then has a rate of its own.

A run in which everything always happens hides what needs long quiet between two faults: an omitted fault is what lets
another one reach deep (docs/faults.md). What it never does: draw from a stream of the running world.
"""

from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native.intrinsics cimport next_random
from raftmeta.sim.buggify cimport buggify_draw

cdef enum:
    REST_STREAM = 0x2e57
    USER_STREAM = 0x05e4
    USER_LARGE_PPM = 31_250
    ROT_STREAM = 0x0207
    BACKGROUND_STREAM = 0xbac6
    EARLY_STREAM = 0xea51


cdef uint32_t _rate(uint64_t* random, uint32_t most_ppm) noexcept nogil:
    """0 in half of the cases, else between a tenth of most_ppm and most_ppm."""
    cdef uint64_t draw = next_random(random)
    if draw & 1:
        return 0
    return most_ppm // 10 + <uint32_t> ((draw >> 1) % (most_ppm - most_ppm // 10))


cdef uint32_t _size(uint64_t* random) noexcept nogil:
    """1 to 7 nodes, most often 3."""
    cdef uint64_t draw = next_random(random) % 10
    return <uint32_t> draw + 1 if draw < 7 else <uint32_t> 3


cdef void _draw_rests(SimConfig* config) noexcept nogil:
    """Three worlds of four know quiet hours; most of these are slower: heartbeats of 10 to 320 ms."""
    cdef uint64_t random = ~config.seed ^ REST_STREAM
    cdef uint32_t pace
    if next_random(&random) % 4 == 0:
        return
    pace = <uint32_t> 1 << next_random(&random) % 4
    config.rest_us = <uint32_t> 16_000_000 << next_random(&random) % 3
    config.busy_us = config.faults.client_gap_us << 3 + next_random(&random) % 4
    config.tick_ms *= pace
    config.faults.fault_gap_us *= pace
    config.faults.down_us *= pace


cdef void _draw_users(SimConfig* config) noexcept nogil:
    """A user machine in one world of four, large commands in one of sixteen: tails long enough for a dump are dear."""
    cdef uint64_t random = ~config.seed ^ USER_STREAM
    config.has_users = next_random(&random) % 4 == 0
    if config.has_users and next_random(&random) % 4 == 0:
        config.user_large_ppm = USER_LARGE_PPM


cdef void _draw_rot(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed ^ ROT_STREAM
    config.faults.rot_ppm = _rate(&random, 150_000)


cdef void _draw_background(SimConfig* config) noexcept nogil:
    """Every world keeps production's order; in half of them the background waits no longer than it must."""
    cdef uint64_t random = ~config.seed ^ BACKGROUND_STREAM
    config.background_us = 1
    if next_random(&random) & 1:
        config.background_us = <uint32_t> 15_625 << next_random(&random) % 8


cdef void _draw_early(SimConfig* config) noexcept nogil:
    """Three worlds of four elect as soon as they may; in the others more happens while nobody leads."""
    cdef uint64_t random = ~config.seed ^ EARLY_STREAM
    config.campaigns_early = next_random(&random) % 4 != 0


cdef void swarm_config(SimConfig* config) noexcept nogil:
    cdef uint64_t random = ~config.seed     # not the streams of world_create
    config.nodes = _size(&random)
    config.segment_bytes = <uint32_t> 16384 << next_random(&random) % 3 * 2
    config.sector_bytes = 512 if next_random(&random) % 4 else 4096
    config.history_bytes_max = <uint64_t> 4096 << next_random(&random) % 4
    config.lease_ttl_ms = 400 + <uint32_t> (next_random(&random) % 2000)
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
    config.snapshot_entries = <uint32_t> 4 << next_random(&random) % 9
    config.snapshot_chunk_bytes = <uint32_t> 512 << next_random(&random) % 5
    config.election_timeout_ticks = <uint32_t> 10 << next_random(&random) % 3
    config.append_bytes_max = <uint32_t> 64 << next_random(&random) % 4 * 4
    config.faults.isolate_ppm = _rate(&random, 300_000)
    config.faults.membership_ppm = _rate(&random, 500_000)
    config.faults.misdirect_ppm = _rate(&random, 60_000)
    config.faults.disk_error_ppm = _rate(&random, 100_000)
    config.faults.corrupt_ppm = _rate(&random, 20_000)
    config.faults.drift_ppm = _rate(&random, 20_000)
    config.faults.wall_ppm = _rate(&random, 200_000)
    # Busy clients fill the events with calls, and little else happens; idle ones leave few entries to lose.
    config.faults.client_gap_us = <uint32_t> 1_000 << next_random(&random) % 6
    config.faults.fault_gap_us = <uint32_t> 80_000 << next_random(&random) % 4
    config.faults.down_us = <uint32_t> 50_000 << next_random(&random) % 4
    config.has_checkpoints = next_random(&random) & 1
    # What was added later draws from streams of its own: older choices of a seed stay as they are.
    buggify_draw(config)
    _draw_rests(config)
    _draw_users(config)
    _draw_rot(config)
    _draw_background(config)
    _draw_early(config)
