"""Processes: bodies."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport qsort

from raftmeta.machine.state_hash cimport hash_minus, hash_plus
from raftmeta.native.intrinsics cimport hash128

cdef enum:
    # Keep the hashes of sessions and leases apart from each other and from those of other parts of the state.
    FORMAT_SESSION_SEED = 0x9120c1
    FORMAT_LEASE_SEED = 0x9120c2

cdef packed struct ProcessImage:
    uint64_t id
    uint64_t member
    uint64_t boot


cdef Hash128 _hash(uint64_t seed, uint64_t id, const Process* process) noexcept nogil:
    cdef ProcessImage image
    image.id = id
    image.member = process.member
    image.boot = process.boot
    return hash128(seed, &image, sizeof(ProcessImage))

cdef void processes_release(Processes* processes) noexcept nogil:
    processes.sessions.release()
    processes.leases.release()
    processes.holdings.release()


# --- how much each holds ----------------------------------------------------------------------------------------------
cdef bint _count(Processes* processes, const Process* process) noexcept nogil:
    cdef ProcessHoldings fresh
    cdef size_t i
    if process.member == 0:
        return True
    for i in range(processes.holdings.size):
        if (processes.holdings.data[i].process.member == process.member
                and processes.holdings.data[i].process.boot == process.boot):
            processes.holdings.data[i].count += 1
            return True
    fresh.process = process[0]
    fresh.count = 1
    return processes.holdings.push(fresh)

cdef void _discount(Processes* processes, const Process* process) noexcept nogil:
    cdef size_t i
    for i in range(processes.holdings.size):
        if (processes.holdings.data[i].process.member != process.member
                or processes.holdings.data[i].process.boot != process.boot):
            continue
        processes.holdings.data[i].count -= 1
        if processes.holdings.data[i].count == 0:
            processes.holdings.data[i] = processes.holdings.back()
            processes.holdings.pop()
        return

cdef bint processes_hold(const Processes* processes, uint64_t member, uint64_t boot) noexcept nogil:
    cdef size_t i
    for i in range(processes.holdings.size):
        if processes.holdings.data[i].process.member == member and processes.holdings.data[i].process.boot <= boot:
            return True
    return False


# --- sessions and leases ----------------------------------------------------------------------------------------------
cdef const Process* processes_of_session(Processes* processes, uint64_t session) noexcept nogil:
    return processes.sessions.find(session) if processes.sessions.size else NULL

cdef const Process* processes_of_lease(Processes* processes, uint64_t lease) noexcept nogil:
    return processes.leases.find(lease) if processes.leases.size else NULL

cdef bint processes_name_session(Processes* processes, uint64_t session, const Process* process) noexcept nogil:
    if processes_of_session(processes, session) != NULL:
        return True
    return _name(processes, &processes.sessions, FORMAT_SESSION_SEED, session, process)

cdef bint processes_name_lease(Processes* processes, uint64_t lease, const Process* process) noexcept nogil:
    if processes_of_lease(processes, lease) != NULL:
        return True
    return _name(processes, &processes.leases, FORMAT_LEASE_SEED, lease, process)

cdef bint _name(Processes* processes, Map64[Process]* named, uint64_t seed, uint64_t id,
                const Process* process) noexcept nogil:
    cdef Process* place
    if not _count(processes, process):
        return False
    place = named.insert(id)
    if place == NULL:
        _discount(processes, process)
        return False
    place[0] = process[0]
    processes.hash = hash_plus(processes.hash, _hash(seed, id, process))
    return True

cdef void _forget(Processes* processes, Map64[Process]* named, uint64_t seed, uint64_t id) noexcept nogil:
    cdef Process* found = named.find(id) if named.size else NULL
    if found == NULL:
        return
    processes.hash = hash_minus(processes.hash, _hash(seed, id, found))
    _discount(processes, found)
    named.erase(id)

cdef void processes_session_ended(Processes* processes, uint64_t session) noexcept nogil:
    _forget(processes, &processes.sessions, FORMAT_SESSION_SEED, session)

cdef void processes_lease_ended(Processes* processes, uint64_t lease) noexcept nogil:
    _forget(processes, &processes.leases, FORMAT_LEASE_SEED, lease)

cdef void processes_share_lease(Processes* processes, uint64_t lease) noexcept nogil:
    cdef Process* found = processes.leases.find(lease) if processes.leases.size else NULL
    if found == NULL or found.member == 0:
        return
    processes.hash = hash_minus(processes.hash, _hash(FORMAT_LEASE_SEED, lease, found))
    _discount(processes, found)
    found.member = found.boot = 0
    processes.hash = hash_plus(processes.hash, _hash(FORMAT_LEASE_SEED, lease, found))


# --- what a process leaves behind -------------------------------------------------------------------------------------
cdef int _by_id(const void* left, const void* right) noexcept nogil:
    cdef uint64_t a = (<const uint64_t*>left)[0]
    cdef uint64_t b = (<const uint64_t*>right)[0]
    return (a > b) - (a < b)

cdef bint _collect(Map64[Process]* named, uint64_t member, uint64_t boot, Vec[uint64_t]* ids) noexcept nogil:
    cdef size_t first = ids.size
    cdef size_t at = named.next(0)
    while at < named.end():
        if named.value_at(at).member == member and named.value_at(at).boot <= boot and not ids.push(named.key_at(at)):
            return False
        at = named.next(at + 1)
    if ids.size > first:
        qsort(ids.data + first, ids.size - first, sizeof(uint64_t), _by_id)
    return True

cdef bint processes_sessions(Processes* processes, uint64_t member, uint64_t boot, Vec[uint64_t]* ids) noexcept nogil:
    return _collect(&processes.sessions, member, boot, ids)

cdef bint processes_leases(Processes* processes, uint64_t member, uint64_t boot, Vec[uint64_t]* ids) noexcept nogil:
    return _collect(&processes.leases, member, boot, ids)
