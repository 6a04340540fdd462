"""The bounds of strangers and the buckets of quotas, alone; bounds.pyi is the manual."""

from __future__ import annotations

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.net.unbound cimport (UNBOUND_NONE, Unbound, address_of_ipv4, address_of_ipv6, address_of_socket,
                                   unbound_add, unbound_look, unbound_prepare, unbound_release, unbound_remove)
from raftmeta.connections.accounts cimport bucket_spend, bucket_wait_ns
from raftmeta.connections.accounts_state cimport bucket_t
from raftmeta.status cimport OK


def address_of(int descriptor):
    return address_of_socket(descriptor)


def address_from(bytes packed):
    return address_of_ipv4(<const uint8_t*>packed) if len(packed) == 4 else address_of_ipv6(<const uint8_t*>packed)


cdef class Strangers:
    cdef Unbound unbound

    def __cinit__(self, uint32_t most, uint32_t most_of_address, uint64_t grace_ns):
        memset(&self.unbound, 0, sizeof(Unbound))
        if not unbound_prepare(&self.unbound, most, most_of_address, grace_ns):
            raise MemoryError

    def __dealloc__(self):
        unbound_release(&self.unbound)

    def arrive(self, uint64_t address, uint32_t place, uint64_t now_ns):
        cdef uint32_t gives_way = UNBOUND_NONE
        cdef uint32_t entry
        gone = None
        if unbound_look(&self.unbound, address, now_ns, &gives_way) != OK:
            return None
        if gives_way != UNBOUND_NONE:
            gone = self.unbound.entries[gives_way].place
            unbound_remove(&self.unbound, gives_way)
        entry = unbound_add(&self.unbound, address, place, now_ns)
        if entry == UNBOUND_NONE:
            raise MemoryError
        return entry, gone

    def leave(self, uint32_t entry):
        unbound_remove(&self.unbound, entry)

    def present(self):
        found = []
        cdef uint32_t entry = self.unbound.first
        while entry != UNBOUND_NONE:
            found.append((self.unbound.entries[entry].address, self.unbound.entries[entry].place))
            entry = self.unbound.entries[entry].next
        assert len(found) == self.unbound.count
        return found


cdef class Bucket:
    cdef bucket_t paid_ns
    cdef uint64_t per_s
    cdef uint64_t burst_ns

    def __cinit__(self, uint64_t per_s, uint64_t burst_ns):
        self.per_s = per_s
        self.burst_ns = burst_ns

    def take(self, uint64_t cost, uint64_t now_ns):
        cdef uint64_t wait_ns = bucket_wait_ns(self.paid_ns, self.per_s, self.burst_ns, now_ns)
        if wait_ns == 0:
            bucket_spend(&self.paid_ns, self.per_s, cost, now_ns)
        return wait_ns
