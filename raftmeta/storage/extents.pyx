"""Which live records stand where in the log, by runs of records that lie one after another.

It decides what remains of a run when records are superseded, compacted or repaired. It must never look at
a record; a run that is cut keeps its place and its length as bounds.
"""

from libc.stdint cimport uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.native.invariants cimport broken
from raftmeta.raft.types cimport index_t
from raftmeta.status cimport NO_MEMORY, OK, status_t
from raftmeta.storage.invariants cimport BROKEN_LOG_RECORDS, BROKEN_RUN_BEYOND, BROKEN_RUN_ORDER
from raftmeta.storage.wal_state cimport Extent, Wal, WalDamage


# The first position in `extents` whose run ends at or after index.
cdef size_t _lower_bound(const Vec[Extent]* extents, index_t index) noexcept nogil:
    cdef size_t low = 0
    cdef size_t high = extents.size
    cdef size_t middle
    while low < high:
        middle = (low + high) // 2
        if extents.data[middle].last < index:
            low = middle + 1
        else:
            high = middle
    return low


cdef size_t extents_find(const Vec[Extent]* extents, index_t index) noexcept nogil:
    cdef size_t position = _lower_bound(extents, index)
    if position < extents.size and extents.data[position].first <= index:
        return position
    return extents.size


cdef void extents_cut(Vec[Extent]* extents, Vec[WalDamage]* damaged, index_t first) noexcept nogil:
    while extents.size and extents.back().first >= first:
        extents.pop()
    if extents.size and extents.back().last >= first:
        extents.back().last = first - 1
    while damaged.size and damaged.back().index >= first:
        damaged.pop()


cdef void extents_forget(Vec[Extent]* extents, Vec[WalDamage]* damaged, index_t last) noexcept nogil:
    cdef size_t count = 0
    extents.drop_front(_lower_bound(extents, last + 1))
    if extents.size and extents.data[0].first <= last:
        extents.data[0].first = last + 1
    while count < damaged.size and damaged.data[count].index <= last:
        count += 1
    damaged.drop_front(count)


cdef status_t extents_append(Vec[Extent]* extents, const Extent* extent) noexcept nogil:
    cdef Extent* back
    if extents.size:
        back = &extents.back()
        if (back.segment == extent.segment and back.last + 1 == extent.first and extent.first == extent.origin
                and back.offset + back.bytes == extent.offset):
            back.last = extent.last
            back.bytes += extent.bytes
            return OK
    return OK if extents.push(extent[0]) else NO_MEMORY


# Make room for one more element at `position`.
cdef bint _open_gap(Vec[Extent]* extents, size_t position) noexcept nogil:
    cdef size_t i
    if not extents.resize(extents.size + 1):
        return False
    for i in range(extents.size - 1, position, -1):
        extents.data[i] = extents.data[i - 1]
    return True


cdef status_t extents_replace(Vec[Extent]* extents, Vec[WalDamage]* damaged, const Extent* extent) noexcept nogil:
    cdef size_t position = _lower_bound(extents, extent.first)
    cdef size_t kept = 0
    cdef size_t i
    # A run that begins before the new one and reaches into it is split in two, the second of which is cut below.
    if position < extents.size and extents.data[position].first < extent.first:
        if not _open_gap(extents, position):
            return NO_MEMORY
        extents.data[position].last = extent.first - 1
        position += 1
        extents.data[position].first = extent.first
    while position < extents.size and extents.data[position].last <= extent.last:
        for i in range(position + 1, extents.size):
            extents.data[i - 1] = extents.data[i]
        extents.pop()
    if position < extents.size and extents.data[position].first <= extent.last:
        extents.data[position].first = extent.last + 1
    if not _open_gap(extents, position):
        return NO_MEMORY
    extents.data[position] = extent[0]
    for i in range(damaged.size):
        if damaged.data[i].index < extent.first or damaged.data[i].index > extent.last:
            damaged.data[kept] = damaged.data[i]
            kept += 1
    damaged.size = kept
    return OK


cdef status_t extents_check(Wal* wal) noexcept nogil:
    cdef index_t before = wal.start.index
    cdef uint64_t records = wal.damaged.size
    cdef const Extent* run
    cdef size_t i
    for i in range(wal.extents.size):
        run = &wal.extents.data[i]
        if run.first <= before or run.last < run.first:
            return broken(&wal.broken, BROKEN_RUN_ORDER, run.first, before)
        records += run.last + 1 - run.first
        before = run.last
    if before > wal.end.index:
        return broken(&wal.broken, BROKEN_RUN_BEYOND, before, wal.end.index)
    if wal.damaged.size != 0 and wal.damaged.back().index > wal.end.index:
        return broken(&wal.broken, BROKEN_RUN_BEYOND, wal.damaged.back().index, wal.end.index)
    if records != wal.end.index - wal.start.index:
        return broken(&wal.broken, BROKEN_LOG_RECORDS, records, wal.end.index - wal.start.index)
    return OK


cdef status_t damage_add(Vec[WalDamage]* damaged, index_t index, uint64_t chain) noexcept nogil:
    cdef WalDamage damage
    damage.index = index
    damage.chain = chain
    return OK if damaged.push(damage) else NO_MEMORY
