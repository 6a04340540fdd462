"""The table of watches of the ZooKeeper door, alone; zookeeper_watches.pyi is the manual."""

from __future__ import annotations

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.doors.zookeeper.watch_table cimport (ZkWatchList, ZkWatchTable, watch_table_add, watch_table_drop,
                                                   watch_table_fire, watch_table_init, watch_table_is_watched,
                                                   watch_table_modes, watch_table_release, watch_table_remove)
from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Bytes

cdef enum:
    PLACES = 16


cdef Bytes _bytes(bytes path):
    cdef Bytes window
    window.data = <const uint8_t*>path
    window.length = <uint32_t>len(path)
    return window


cdef class Table:
    cdef ZkWatchTable table
    cdef ZkWatchList own[PLACES]

    def __cinit__(self, uint64_t count_max):
        memset(self.own, 0, sizeof(self.own))
        watch_table_init(&self.table, count_max)

    def __dealloc__(self):
        cdef int place
        for place in range(PLACES):
            watch_table_drop(&self.table, &self.own[place])
        watch_table_release(&self.table)

    def add(self, uint32_t place, bytes path, uint8_t mode):
        cdef Bytes at = _bytes(path)
        return watch_table_add(&self.table, &self.own[place], place, &at, mode)

    def modes(self, uint32_t place, bytes path):
        cdef Bytes at = _bytes(path)
        return watch_table_modes(&self.table, place, &at)

    def remove(self, uint32_t place, bytes path, uint8_t modes):
        cdef Bytes at = _bytes(path)
        watch_table_remove(&self.table, place, &at, modes)

    def drop(self, uint32_t place):
        watch_table_drop(&self.table, &self.own[place])

    def is_watched(self, bytes path, uint8_t modes):
        cdef Bytes at = _bytes(path)
        return bool(watch_table_is_watched(&self.table, &at, modes))

    def fire(self, bytes path, uint8_t modes, uint8_t spent):
        cdef Bytes at = _bytes(path)
        cdef Vec[uint32_t] places
        cdef size_t i
        memset(<void*>&places, 0, sizeof(places))
        if not watch_table_fire(&self.table, &at, modes, spent, &places):
            raise MemoryError
        found = [places.data[i] for i in range(places.size)]
        places.release()
        return found

    def counts(self):
        return self.table.count, self.table.paths, self.table.recursive, self.table.by_pair.size
