"""Every record that any disk has, by its chain hash: bodies.

It never looks into a record. An entry that was cut from a log stays: its chain hash names it alone.
"""
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.raft.types cimport Record
from raftmeta.sim.world.world_state cimport VIOLATION_NO_MEMORY, World, violate


cdef void entries_note(World* world, const Record* record) noexcept nogil:
    cdef uint64_t* place = world.entries.places.insert(record.chain)
    if place == NULL:
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
        return
    if place[0] != 0:
        return
    place[0] = world.entries.bytes.size + 1
    if not world.entries.bytes.append(<const uint8_t*>record, sizeof(Record) + record.length):
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)


cdef const Record* entries_find(World* world, uint64_t chain) noexcept nogil:
    cdef uint64_t* place = world.entries.places.find(chain) if world.entries.places.size else NULL
    return <const Record*>(world.entries.bytes.data + place[0] - 1) if place != NULL else NULL


cdef void entries_release(World* world) noexcept nogil:
    world.entries.places.release()
    world.entries.bytes.release()
