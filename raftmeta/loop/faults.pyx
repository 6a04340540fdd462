"""Faults of the network on purpose: frames cut off, lost, repeated, delayed.

It decides the fate of one frame, by the table that a test set and a seeded stream. It must never touch a
connection, cut a frame in two, or reorder the frames of one delay.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from raftmeta.native.chunks cimport Slice, chunk_create, chunk_drop
from raftmeta.native.intrinsics cimport next_random
from raftmeta.net.transport cimport transport_send
from raftmeta.raft.types cimport MEMBERS_MAX
from raftmeta.status cimport BAD_LENGTH, OK, status_t


cdef status_t faults_set(Faults* faults, const uint8_t* bytes, uint32_t length, uint64_t seed) noexcept nogil:
    if length % sizeof(LinkFault) != 0 or length > MEMBERS_MAX * sizeof(LinkFault):
        return BAD_LENGTH
    faults.count = <uint32_t>(length // sizeof(LinkFault))
    faults.random = seed
    memcpy(faults.links, bytes, length)
    return OK


cdef const LinkFault* _fault_of(const Faults* faults, const uint8_t* name, uint8_t name_length) noexcept nogil:
    cdef uint32_t i
    for i in range(faults.count):
        if faults.links[i].name_length == name_length and memcmp(faults.links[i].name, name, name_length) == 0:
            return &faults.links[i]
    return NULL


cdef bint faults_are_cut(const Faults* faults, const Link* link, uint8_t cuts) noexcept nogil:
    cdef const LinkFault* fault = _fault_of(faults, link.name, link.name_length)
    return fault != NULL and fault.cuts & cuts


cdef bint faults_cut_name(const Faults* faults, const uint8_t* name, uint8_t name_length) noexcept nogil:
    cdef const LinkFault* fault = _fault_of(faults, name, name_length)
    return fault != NULL and fault.cuts


cdef bint _happens(Faults* faults, uint32_t parts) noexcept nogil:
    return parts != 0 and next_random(&faults.random) % PARTS_PER_WHOLE < parts


# Without memory the frame is lost, as frames may be.
cdef void _send_later(Faults* faults, uint32_t place, const uint8_t* head, size_t head_length, const Slice* records,
                      uint64_t due_ns) noexcept nogil:
    cdef LateFrame frame
    frame.due_ns = due_ns
    frame.link = place
    frame.head_length = <uint32_t>head_length
    frame.chunk = chunk_create(<uint32_t>head_length + records.length)
    if frame.chunk == NULL:
        return
    memcpy(frame.chunk.bytes(), head, head_length)
    if records.length != 0:
        memcpy(frame.chunk.bytes() + head_length, records.data, records.length)
    frame.chunk.used = frame.chunk.capacity
    if not faults.late.push(frame):
        chunk_drop(frame.chunk)


cdef void faults_send(Faults* faults, Transport* transport, const Link* link, uint32_t place, const uint8_t* head,
                      size_t head_length, const Slice* records, uint64_t now_ns) noexcept nogil:
    cdef const LinkFault* fault = _fault_of(faults, link.name, link.name_length)
    cdef int copies = 1
    if fault == NULL:
        transport_send(transport, place, head, head_length, records)
        return
    if fault.cuts & FAULT_CUT_TO or _happens(faults, fault.drop_parts):
        return
    if _happens(faults, fault.duplicate_parts):
        copies = 2
    for _ in range(copies):
        if fault.delay_ns == 0:
            transport_send(transport, place, head, head_length, records)
        else:
            _send_later(faults, place, head, head_length, records, now_ns + fault.delay_ns)


cdef uint64_t faults_send_late(Faults* faults, Transport* transport, uint64_t now_ns) noexcept nogil:
    cdef uint64_t earliest_ns = ~<uint64_t>0
    cdef LateFrame* frame
    cdef Slice records
    cdef size_t i, kept = 0
    for i in range(faults.late.size):
        frame = &faults.late.data[i]
        if frame.due_ns > now_ns:
            earliest_ns = min(earliest_ns, frame.due_ns)
            faults.late.data[kept] = frame[0]
            kept += 1
            continue
        records.chunk = frame.chunk
        records.data = frame.chunk.bytes() + frame.head_length
        records.length = frame.chunk.used - frame.head_length
        transport_send(transport, frame.link, frame.chunk.bytes(), frame.head_length, &records)
        chunk_drop(frame.chunk)
    faults.late.resize(kept)        # never grows
    return earliest_ns


cdef void faults_release(Faults* faults) noexcept nogil:
    cdef size_t i
    for i in range(faults.late.size):
        chunk_drop(faults.late.data[i].chunk)
    faults.late.release()
