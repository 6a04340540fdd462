# Leases: a time to live on the replicated lease clock, and the keys that end with it (decisions/README.md "Leases").
#
# It keeps who holds which keys until when. It never removes a key and never expires anything by itself: an entry does,
# and machine.pyx carries it out. No clock is read here: `lease_ms` is always that of the entry being applied.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.deadlines cimport Deadlines, Due
from raftmeta.machine.tree cimport Entry
from raftmeta.native.containers cimport Map64, Vec
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes

cdef enum:
    FORMAT_NOTE_BYTES_MAX = 4096    # owner's note of a lease, opener of a session

cdef enum:
    FORMAT_TTL_MS_MAX = 0x100_0000_0000     # 2^40 ms: 34 years

cdef struct Lease:
    Due due                     # first: a Due* of the heap is a Lease*
    uint64_t ttl_ms
    Entry* first                # attached keys, linked in no particular order
    uint32_t key_count
    uint32_t parent_count       # of them znodes and members of groups: another key changes with each
    uint32_t planned_count      # keys the entry under way will attach; counts only while planned_at is its index
    uint64_t planned_at
    bint is_ending              # its keys are being deleted with it: no need to detach them one by one
    uint32_t note_length
    uint8_t* note
    Hash128 addend              # its part of Leases.hash

# Links of one attached key, found under the address of its newest entry.
cdef struct Attachment:
    Entry* next
    Entry* previous

cdef struct Leases:
    Map64[Lease*] by_id
    Map64[Attachment] attached
    Deadlines deadlines
    Hash128 hash                # sum over all leases, mod 2^128

cdef void leases_release(Leases* leases) noexcept nogil
cdef Lease* leases_find(Leases* leases, uint64_t id) noexcept nogil
# An id for the entry at `index`, not in use and below 2^63; the same on every node.
cdef uint64_t leases_choose_id(Leases* leases, uint64_t index) noexcept nogil
# ID_CONFLICT: held already. COMMAND_INVALID: ttl_ms not in 1..FORMAT_TTL_MS_MAX. VALUE_TOO_LARGE: the note. NO_MEMORY.
cdef status_t leases_grant(Leases* leases, uint64_t id, uint64_t ttl_ms, uint64_t deadline_ms,
                           const Bytes* note) noexcept nogil
cdef void leases_renew(Leases* leases, Lease* lease, uint64_t lease_ms) noexcept nogil
# Forget a lease; keys still attached are forgotten as attached, not deleted.
cdef void leases_end(Leases* leases, Lease* lease) noexcept nogil

# Room for one more key of the lease, counted over what the entry at `index` has planned so far. Keys that the entry
# takes from the lease give no room: the answer must not depend on the order. LEASE_EXPIRED: there is no such lease, or
# it is one of the machine's. TOO_MANY_CHANGES.
cdef status_t leases_reserve(Leases* leases, uint64_t id, uint64_t index) noexcept nogil
# Whether the machine granted the lease, for a container, a TTL node, a group or its offsets: then nobody else may use it.
cdef bint lease_is_own(const Lease* lease) noexcept nogil

# `entry` became the newest of its key and names this lease. False: no memory.
cdef bint leases_attach(Leases* leases, Lease* lease, Entry* entry) noexcept nogil
# `entry` is no longer the newest of its key.
cdef void leases_detach(Leases* leases, Lease* lease, Entry* entry) noexcept nogil
# Append the attached entries in key order, alike on every node. False: no memory.
cdef bint leases_keys(Leases* leases, Lease* lease, Vec[Entry*]* entries) noexcept nogil
