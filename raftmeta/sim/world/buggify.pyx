"""Buggify points are fired by the world that runs on this thread, at the rates of its profile.

It decides whether a point fires now. It must never draw for one point from the stream of another, so that
a point less in a profile shifts none of the others; fire when a world heals, or where no world runs.
"""

from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native.buggify cimport BUGGIFY_POINTS, buggify_install, buggify_owner
from raftmeta.native.intrinsics cimport hash64, next_random

cdef enum:
    RATE_MOST_PPM = 250_000


cdef uint64_t _stream(uint64_t seed, uint32_t which) noexcept nogil:
    cdef uint64_t[2] place
    place[0] = which
    place[1] = 0x62_75_67_67_69_66_79      # no other stream of this seed
    return hash64(seed, place, sizeof(place))


cdef void buggify_draw(SimConfig* config) noexcept nogil:
    cdef uint64_t random = _stream(config.seed, <uint32_t>BUGGIFY_POINTS)
    cdef uint64_t draw
    cdef uint32_t which
    if next_random(&random) & 1:
        return
    for which in range(<uint32_t>BUGGIFY_POINTS):
        draw = next_random(&random)
        # Rates over several magnitudes: what always fires hides what needs a long time without it.
        if draw & 3 == 0:
            config.buggify_ppm[which] = <uint32_t>RATE_MOST_PPM >> (draw >> 2) % 7


cdef void buggify_begin(World* world) noexcept nogil:
    cdef uint32_t which
    for which in range(<uint32_t>BUGGIFY_POINTS):
        world.buggify_random[which] = _stream(world.config.seed, which)
        world.has_buggify = world.has_buggify or world.config.buggify_ppm[which] != 0


cdef bint _decide(unsigned which) noexcept nogil:
    cdef World* world = <World*>buggify_owner()
    if world == NULL or world.config.buggify_ppm[which] == 0 or not world.faults_are_on:
        return False
    if next_random(&world.buggify_random[which]) % 1_000_000 >= world.config.buggify_ppm[which]:
        return False
    world.buggify_fired[which] += 1
    return True


cdef void buggify_enter(World* world) noexcept nogil:
    if world.has_buggify:
        # It stays from the first such world on: on a thread without a world nothing fires.
        buggify_install(_decide)
        (&buggify_owner())[0] = world


cdef void buggify_leave() noexcept nogil:
    (&buggify_owner())[0] = NULL
