"""The heap of deadlines: bodies. A binary heap whose items know their place in it."""
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native.containers cimport Vec


cdef inline void _place(Deadlines* deadlines, uint32_t position, Due* due) noexcept nogil:
    deadlines.heap.data[position] = due
    due.position = position

cdef void _sift_up(Deadlines* deadlines, uint32_t position) noexcept nogil:
    cdef Due* due = deadlines.heap.data[position]
    cdef uint32_t parent
    while position > 0:
        parent = (position - 1) // 2
        if deadlines.heap.data[parent].filed_ms <= due.filed_ms:
            break
        _place(deadlines, position, deadlines.heap.data[parent])
        position = parent
    _place(deadlines, position, due)

cdef void _sift_down(Deadlines* deadlines, uint32_t position) noexcept nogil:
    cdef Due* due = deadlines.heap.data[position]
    cdef size_t size = deadlines.heap.size
    cdef size_t child = 2 * <size_t>position + 1
    while child < size:
        if child + 1 < size and deadlines.heap.data[child + 1].filed_ms < deadlines.heap.data[child].filed_ms:
            child += 1
        if due.filed_ms <= deadlines.heap.data[child].filed_ms:
            break
        _place(deadlines, position, deadlines.heap.data[child])
        position = <uint32_t>child
        child = 2 * child + 1
    _place(deadlines, position, due)

cdef bint deadlines_add(Deadlines* deadlines, Due* due) noexcept nogil:
    due.filed_ms = due.deadline_ms
    if not deadlines.heap.push(due):
        return False
    _sift_up(deadlines, <uint32_t>deadlines.heap.size - 1)
    return True

cdef void deadlines_remove(Deadlines* deadlines, Due* due) noexcept nogil:
    cdef uint32_t position = due.position
    cdef Due* final = deadlines.heap.back()
    deadlines.heap.pop()
    if final == due:
        return
    _place(deadlines, position, final)
    _sift_up(deadlines, position)
    _sift_down(deadlines, final.position)

cdef uint32_t deadlines_due(Deadlines* deadlines, uint64_t lease_ms, Vec[uint64_t]* ids, Vec[uint64_t]* due_ms,
                            uint32_t most) noexcept nogil:
    cdef size_t first = ids.size
    cdef uint32_t count = 0
    cdef Due* due
    # The due ones are taken out to see those behind them and filed again below; the heap keeps its memory, so that
    # filing again cannot fail.
    cdef uint32_t size = <uint32_t>deadlines.heap.size
    while count < most and deadlines.heap.size > 0 and deadlines.heap.data[0].filed_ms <= lease_ms:
        due = deadlines.heap.data[0]
        if due.deadline_ms > due.filed_ms:      # renewed since it was filed
            due.filed_ms = due.deadline_ms
            _sift_down(deadlines, 0)
            continue
        if not ids.push(due.id) or not due_ms.push(due.deadline_ms):
            break
        deadlines_remove(deadlines, due)
        deadlines.heap.data[deadlines.heap.size] = due      # behind the heap, in the place that became free
        count += 1
    while deadlines.heap.size < size:
        deadlines.heap.size += 1
        _sift_up(deadlines, <uint32_t>deadlines.heap.size - 1)
    ids.resize(first + count)
    return count
