"""Pages of leases: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, qsort
from libc.string cimport memset

from raftmeta.engine.submission cimport ListLeasesArguments
from raftmeta.machine.entry cimport Entry, entry_key
from raftmeta.machine.leases cimport Lease, Leases, leases_find, leases_keys
from raftmeta.machine.rights cimport rights_lease_owner
from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport NO_MEMORY, NOT_FOUND, OK, OVERLOADED, status_t
from raftmeta.wire.msgpack cimport Writer, write_array, write_bin, write_bool, write_uint, writer_at

cdef enum:
    TUNE_PAGE_BYTES = 256 * 1024    # of one answer, but for the last lease in it
    LEASE_ELEMENTS = 4


cdef int _by_id(const void* left, const void* right) noexcept nogil:
    cdef uint64_t a = (<const Lease**>left)[0].due.id
    cdef uint64_t b = (<const Lease**>right)[0].due.id
    return (a > b) - (a < b)


# Those from `least` on, in order. A cluster has as many leases as it has sessions of programs: thousands, so that
# sorting them for every page is less than the page itself.
cdef bint _find(Machine* machine, const ListLeasesArguments* asked, Vec[Lease*]* found) noexcept nogil:
    cdef Leases* leases = &machine.leases
    cdef size_t position = leases.by_id.next(0)
    cdef Lease* lease
    cdef bint is_asked
    while position < leases.by_id.end():
        lease = leases.by_id.value_at(position)
        is_asked = lease.due.id >= asked.least and (
            asked.owner == 0 or rights_lease_owner(&machine.rights, lease.due.id) == asked.owner)
        if is_asked and not found.push(lease):
            return False
        position = leases.by_id.next(position + 1)
    if found.size:
        qsort(found.data, found.size, sizeof(Lease*), _by_id)
    return True


cdef inline uint64_t _remaining_ms(Engine* engine, const Lease* lease) noexcept nogil:
    cdef uint64_t now_ms = engine.machine.lease_ms
    return lease.due.deadline_ms - now_ms if lease.due.deadline_ms > now_ms else 0


cdef status_t _write(Engine* engine, const Vec[Lease*]* found, Vec[uint8_t]* page) noexcept nogil:
    cdef const Lease* lease
    cdef Vec[uint8_t] rows
    cdef Writer writer
    cdef size_t i = 0
    memset(&rows, 0, sizeof(rows))
    writer = writer_at(&rows)
    while i < found.size and rows.size < TUNE_PAGE_BYTES:
        lease = found.data[i]
        write_array(&writer, LEASE_ELEMENTS)
        write_uint(&writer, lease.due.id)
        write_uint(&writer, lease.ttl_ms)
        write_uint(&writer, _remaining_ms(engine, lease))
        write_bin(&writer, lease.note, lease.note_length)
        i += 1
    if writer.status == OK:
        writer = writer_at(page)
        write_bool(&writer, i < found.size)
    if writer.status == OK and not page.append(rows.data, rows.size):
        writer.status = NO_MEMORY
    rows.release()
    return writer.status


cdef void leases_submit(Engine* engine, Submission* submission) noexcept nogil:
    cdef Vec[Lease*] found
    cdef Vec[uint8_t] page
    cdef status_t status
    memset(&found, 0, sizeof(found))
    memset(&page, 0, sizeof(page))
    status = NO_MEMORY
    if _find(engine.machine, &submission.arguments.list_leases, &found):
        status = _write(engine, &found, &page)
    # A page that failed for memory was not made, and may be made elsewhere.
    engine.callers.done(engine.callers.self, submission.owner, OK if status == OK else OVERLOADED,
                        engine.machine.revision, engine.applying.applied, page.data,
                        <uint32_t>(page.size if status == OK else 0))
    found.release()
    page.release()
    free(submission)


cdef status_t _write_one(Engine* engine, Lease* lease, Vec[uint8_t]* shown) noexcept nogil:
    cdef Writer writer = writer_at(shown)
    cdef Vec[Entry*] entries
    cdef size_t i
    memset(&entries, 0, sizeof(entries))
    if not leases_keys(&engine.machine.leases, lease, &entries):
        entries.release()
        return NO_MEMORY
    write_uint(&writer, lease.ttl_ms)
    write_uint(&writer, _remaining_ms(engine, lease))
    write_array(&writer, <uint32_t>entries.size)
    for i in range(entries.size):
        write_bin(&writer, entry_key(entries.data[i]), entries.data[i].key_length)
    entries.release()
    return writer.status


cdef void leases_show(Engine* engine, Submission* submission) noexcept nogil:
    cdef Lease* lease = leases_find(&engine.machine.leases, submission.arguments.list_leases.least)
    cdef Vec[uint8_t] shown
    cdef status_t status = NOT_FOUND
    memset(&shown, 0, sizeof(shown))
    if lease != NULL:
        status = _write_one(engine, lease, &shown)
    if status == NO_MEMORY:
        status = OVERLOADED
    engine.callers.done(engine.callers.self, submission.owner, status, engine.machine.revision,
                        engine.applying.applied, shown.data, <uint32_t>(shown.size if status == OK else 0))
    shown.release()
    free(submission)
