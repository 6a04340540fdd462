"""Leases: bodies.

Attached keys are linked through one table for all leases, keyed by the address of the newest entry: attaching and
detaching are O(1), and a lease of one key (the common one: a member, a lock) needs no table of its own. The order of
the links depends on the past of the node, so keys are sorted before an entry deletes them.
"""
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy

from raftmeta.machine.deadlines cimport deadline_after, deadlines_add, deadlines_remove
from raftmeta.machine.entry cimport ENTRY_GROUP, ENTRY_MEMBER, ENTRY_OFFSETS, ENTRY_ZNODE
from raftmeta.machine.plan cimport compare_bytes
from raftmeta.machine.state_hash cimport hash_minus, hash_plus
from raftmeta.machine.tree cimport entry_key, entry_meta
from raftmeta.native.intrinsics cimport hash128, next_random
from raftmeta.status cimport (COMMAND_INVALID, ID_CONFLICT, LEASE_EXPIRED, NO_MEMORY, OK, TOO_MANY_CHANGES,
                              VALUE_TOO_LARGE)
from raftmeta.wire.commands cimport CHANGES_MAX
from raftmeta.wire.znodes cimport ZNODE_CONTAINER, ZNODE_TTL

# The part of a lease that the state hash covers.
cdef packed struct LeaseImage:
    uint64_t id
    uint64_t ttl_ms
    uint64_t deadline_ms
    uint64_t note_low
    uint64_t note_high

cdef enum:
    FORMAT_LEASE_SEED = 0x1ea5e         # keeps hashes of leases apart from those of other parts of the state


cdef void _hash_out(Leases* leases, const Lease* lease) noexcept nogil:
    leases.hash = hash_minus(leases.hash, lease.addend)

cdef void _hash_in(Leases* leases, Lease* lease) noexcept nogil:
    cdef LeaseImage image
    cdef Hash128 note = hash128(FORMAT_LEASE_SEED, lease.note, lease.note_length)
    image.id = lease.due.id
    image.ttl_ms = lease.ttl_ms
    image.deadline_ms = lease.due.deadline_ms
    image.note_low = note.low
    image.note_high = note.high
    lease.addend = hash128(FORMAT_LEASE_SEED, &image, sizeof(LeaseImage))
    leases.hash = hash_plus(leases.hash, lease.addend)

cdef void _free_lease(Lease* lease) noexcept nogil:
    free(lease.note)
    free(lease)

cdef void leases_release(Leases* leases) noexcept nogil:
    cdef size_t position = leases.by_id.next(0)
    while position < leases.by_id.end():
        _free_lease(leases.by_id.value_at(position))
        position = leases.by_id.next(position + 1)
    leases.by_id.release()
    leases.attached.release()
    leases.deadlines.heap.release()

cdef Lease* leases_find(Leases* leases, uint64_t id) noexcept nogil:
    cdef Lease** found = leases.by_id.find(id)
    return found[0] if found != NULL else NULL

cdef uint64_t leases_choose_id(Leases* leases, uint64_t index) noexcept nogil:
    cdef uint64_t stream = index
    cdef uint64_t id = 0
    while id == 0 or leases_find(leases, id) != NULL:
        id = next_random(&stream) >> 1
    return id

cdef status_t leases_grant(Leases* leases, uint64_t id, uint64_t ttl_ms, uint64_t deadline_ms,
                           const Bytes* note) noexcept nogil:
    if ttl_ms == 0 or ttl_ms > FORMAT_TTL_MS_MAX:
        return COMMAND_INVALID
    if note.length > FORMAT_NOTE_BYTES_MAX:
        return VALUE_TOO_LARGE
    if leases_find(leases, id) != NULL:
        return ID_CONFLICT
    cdef Lease* lease = <Lease*>calloc(1, sizeof(Lease))
    if lease == NULL:
        return NO_MEMORY
    lease.due.id = id
    lease.due.deadline_ms = deadline_ms
    lease.ttl_ms = ttl_ms
    if not _set_note(lease, note) or not _file(leases, lease):
        _free_lease(lease)
        return NO_MEMORY
    _hash_in(leases, lease)
    return OK

cdef bint _set_note(Lease* lease, const Bytes* note) noexcept nogil:
    if note.length == 0:
        return True
    lease.note = <uint8_t*>malloc(note.length)
    if lease.note == NULL:
        return False
    memcpy(lease.note, note.data, note.length)
    lease.note_length = note.length
    return True

cdef bint _file(Leases* leases, Lease* lease) noexcept nogil:
    cdef Lease** slot = leases.by_id.insert(lease.due.id)
    if slot == NULL:
        return False
    slot[0] = lease
    if not deadlines_add(&leases.deadlines, &lease.due):
        leases.by_id.erase(lease.due.id)
        return False
    return True

cdef void leases_renew(Leases* leases, Lease* lease, uint64_t lease_ms) noexcept nogil:
    _hash_out(leases, lease)
    lease.due.deadline_ms = deadline_after(lease_ms, lease.ttl_ms)
    _hash_in(leases, lease)

cdef void leases_end(Leases* leases, Lease* lease) noexcept nogil:
    cdef Entry* entry = lease.first
    cdef Entry* next_entry
    while entry != NULL:
        next_entry = leases.attached.find(<uint64_t>entry).next
        leases.attached.erase(<uint64_t>entry)
        entry = next_entry
    _hash_out(leases, lease)
    deadlines_remove(&leases.deadlines, &lease.due)
    leases.by_id.erase(lease.due.id)
    _free_lease(lease)


# --- attached keys ----------------------------------------------------------------------------------------------------
cdef status_t leases_reserve(Leases* leases, uint64_t id, uint64_t index) noexcept nogil:
    cdef Lease* lease = leases_find(leases, id)
    if lease == NULL or lease_is_own(lease):
        return LEASE_EXPIRED
    if lease.planned_at != index:
        lease.planned_at = index
        lease.planned_count = 0
    if lease.key_count + lease.planned_count >= CHANGES_MAX:
        return TOO_MANY_CHANGES
    lease.planned_count += 1
    return OK

# Such a lease has exactly one key, and is never without.
cdef bint lease_is_own(const Lease* lease) noexcept nogil:
    cdef uint8_t kind
    if lease.key_count != 1 or not lease.first.flags & (ENTRY_ZNODE | ENTRY_GROUP | ENTRY_OFFSETS):
        return False
    if lease.first.flags & (ENTRY_GROUP | ENTRY_OFFSETS):
        return True
    kind = entry_meta(lease.first).kind
    return kind == ZNODE_CONTAINER or kind == ZNODE_TTL

cdef bint leases_attach(Leases* leases, Lease* lease, Entry* entry) noexcept nogil:
    cdef Attachment* attachment = leases.attached.insert(<uint64_t>entry)
    if attachment == NULL:
        return False
    attachment.next = lease.first
    if lease.first != NULL:
        leases.attached.find(<uint64_t>lease.first).previous = entry
    lease.first = entry
    lease.key_count += 1
    lease.parent_count += (entry.flags & (ENTRY_ZNODE | ENTRY_MEMBER)) != 0
    return True

cdef void leases_detach(Leases* leases, Lease* lease, Entry* entry) noexcept nogil:
    cdef Attachment attachment = leases.attached.find(<uint64_t>entry)[0]
    leases.attached.erase(<uint64_t>entry)
    if attachment.previous != NULL:
        leases.attached.find(<uint64_t>attachment.previous).next = attachment.next
    else:
        lease.first = attachment.next
    if attachment.next != NULL:
        leases.attached.find(<uint64_t>attachment.next).previous = attachment.previous
    lease.key_count -= 1
    lease.parent_count -= (entry.flags & (ENTRY_ZNODE | ENTRY_MEMBER)) != 0

cdef int _by_key(const void* left, const void* right) noexcept nogil:
    cdef const Entry* a = (<const Entry**>left)[0]
    cdef const Entry* b = (<const Entry**>right)[0]
    return compare_bytes(entry_key(a), a.key_length, entry_key(b), b.key_length)

cdef bint leases_keys(Leases* leases, Lease* lease, Vec[Entry*]* entries) noexcept nogil:
    cdef size_t first = entries.size
    cdef Entry* entry = lease.first
    while entry != NULL:
        if not entries.push(entry):
            return False
        entry = leases.attached.find(<uint64_t>entry).next
    if entries.size > first:
        qsort(entries.data + first, entries.size - first, sizeof(Entry*), _by_key)
    return True
