"""Three passes over the rows: pair events, count components into buckets, place each row."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint64_t

from raftmeta.check.loaded cimport EVENT_INVOKE, Component, Loaded
from raftmeta.check.meaning cimport REASON_OTHER_OPERATION
from raftmeta.check.status cimport NONE
from raftmeta.status cimport NO_MEMORY, OK, status_t


cdef status_t group_rows(Grouping* grouping, const Loaded* loaded, int64_t rows_max) noexcept nogil:
    cdef status_t status = _pair_rows(grouping, loaded)
    if status == OK:
        status = _name_buckets(grouping, loaded, rows_max)
    if status == OK:
        status = _place_rows(grouping, loaded)
    grouping.component_of.release()
    grouping.reason_of.release()
    grouping.bucket_of.release()
    grouping.counts.release()
    grouping.under_way.release()
    return status


# Events are paired as the loader pairs them: what it found to make no sense is left out in the same way.
cdef status_t _pair_rows(Grouping* grouping, const Loaded* loaded) noexcept nogil:
    cdef int64_t rows = loaded.columns.rows
    cdef int64_t row
    cdef size_t position
    if not (grouping.invocation.resize(rows) and grouping.component_of.resize(rows)
            and grouping.reason_of.resize(rows)):
        return NO_MEMORY
    for row in range(rows):
        grouping.invocation.data[row] = NONE
        grouping.component_of.data[row] = NONE
    for position in range(loaded.malformed.size):
        grouping.reason_of.data[loaded.malformed.data[position].row] = loaded.malformed.data[position].reason
    _mark_invocations(grouping, loaded)
    for row in range(rows):
        if not _pair_row(grouping, loaded, row):
            return NO_MEMORY
    return OK


cdef void _mark_invocations(Grouping* grouping, const Loaded* loaded) noexcept nogil:
    cdef size_t number
    cdef int32_t operation
    cdef const Component* component
    for number in range(loaded.components.size):
        component = &loaded.components.data[number]
        for operation in range(component.operation, component.operation + component.operation_count):
            grouping.component_of.data[loaded.operations.data[operation].called_at] = <int32_t>number


# False: no memory.
cdef bint _pair_row(Grouping* grouping, const Loaded* loaded, int64_t row) noexcept nogil:
    cdef uint64_t process = <uint64_t>loaded.columns.process[row]
    cdef bint is_invocation = loaded.columns.kind[row] == EVENT_INVOKE
    cdef int32_t* open_
    if grouping.reason_of.data[row] != 0:
        # Such a completion did end the operation under way; what makes no sense for an earlier reason did not.
        if not is_invocation and grouping.reason_of.data[row] >= REASON_OTHER_OPERATION:
            grouping.under_way.erase(process)
        return True
    if is_invocation:
        open_ = grouping.under_way.insert(process)
        if open_ == NULL:
            return False
        open_[0] = <int32_t>row + 1
        return True
    open_ = grouping.under_way.find(process)
    if open_ != NULL:
        grouping.invocation.data[row] = open_[0] - 1
        grouping.component_of.data[row] = grouping.component_of.data[open_[0] - 1]
        grouping.under_way.erase(process)
    return True


# Components that are seen one behind the other share a bucket until it is full.
cdef status_t _name_buckets(Grouping* grouping, const Loaded* loaded, int64_t rows_max) noexcept nogil:
    cdef size_t number
    cdef int64_t row
    cdef int64_t filled = 0
    cdef int64_t end = 0
    if not grouping.counts.resize(loaded.components.size) or not grouping.bucket_of.resize(loaded.components.size):
        return NO_MEMORY
    for row in range(loaded.columns.rows):
        if grouping.component_of.data[row] != NONE:
            grouping.counts.data[grouping.component_of.data[row]] += 1
    for number in range(loaded.components.size):
        grouping.bucket_of.data[number] = NONE
        if loaded.components.data[number].is_tainted or grouping.counts.data[number] == 0:
            continue
        if grouping.bucket_ends.size == 0 or filled + grouping.counts.data[number] > rows_max and filled > 0:
            filled = 0
            if not grouping.bucket_ends.push(end):
                return NO_MEMORY
        filled += grouping.counts.data[number]
        end += grouping.counts.data[number]
        grouping.bucket_ends.data[grouping.bucket_ends.size - 1] = end
        grouping.bucket_of.data[number] = <int32_t>grouping.bucket_ends.size - 1
    return OK if grouping.rows.resize(end) else NO_MEMORY


cdef status_t _place_rows(Grouping* grouping, const Loaded* loaded) noexcept nogil:
    cdef int64_t row
    cdef size_t number
    cdef int32_t bucket
    cdef int64_t* place
    grouping.counts.clear()
    if not grouping.counts.resize(grouping.bucket_ends.size):
        return NO_MEMORY
    for number in range(1, grouping.bucket_ends.size):
        grouping.counts.data[number] = grouping.bucket_ends.data[number - 1]
    for row in range(loaded.columns.rows):
        bucket = grouping.component_of.data[row]
        if bucket != NONE:
            bucket = grouping.bucket_of.data[bucket]
        if bucket != NONE:
            place = &grouping.counts.data[bucket]
            grouping.rows.data[place[0]] = <int32_t>row
            place[0] += 1
        elif not grouping.outside.push(<int32_t>row):
            return NO_MEMORY
    return OK


cdef void group_release(Grouping* grouping) noexcept nogil:
    grouping.invocation.release()
    grouping.rows.release()
    grouping.bucket_ends.release()
    grouping.outside.release()
    grouping.component_of.release()
    grouping.reason_of.release()
    grouping.bucket_of.release()
    grouping.counts.release()
    grouping.under_way.release()
