"""The identity of a folder as a Python object, for tests and tools; the engine never touches this module."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.native.intrinsics cimport next_random
from raftmeta.ports cimport RandomPort
from raftmeta.raft.genesis cimport GenesisRecord
from raftmeta.raft.membership cimport membership_decode
from raftmeta.status cimport OK
from raftmeta.storage cimport identity as folder
from raftmeta.storage.identity cimport Identity
from raftmeta.storage.storage_handle cimport Disk


cdef uint64_t _next(void* self) noexcept nogil:
    return next_random(<uint64_t*>self)


cdef class IdentityHandle:
    cdef Identity* identity
    cdef Disk disk
    cdef uint64_t seed
    cdef RandomPort random

    def __cinit__(self, Disk disk, bytes name, bytes cluster_name, *, uint64_t seed=1):
        self.disk = disk
        self.seed = seed
        self.random.self = &self.seed
        self.random.next = _next
        self.identity = folder.identity_create(&disk.port, <const uint8_t*>name, <uint32_t>len(name),
                                               <const uint8_t*>cluster_name, <uint32_t>len(cluster_name))
        if self.identity == NULL:
            raise MemoryError

    def __dealloc__(self):
        folder.identity_destroy(self.identity)

    @property
    def id(self):
        return self.identity.id

    @property
    def former(self):
        return self.identity.former

    @property
    def boot(self):
        return self.identity.boot

    @property
    def is_new(self):
        return bool(self.identity.is_new)

    @property
    def genesis(self):
        cdef GenesisRecord* record = &self.identity.genesis
        return record.state, (record.cluster_low, record.cluster_high), record.membership.count

    def open(self):
        return folder.identity_open(self.identity, &self.random)

    def count_boot(self):
        return folder.identity_count_boot(self.identity)

    def renew(self, is_void=False):
        return folder.identity_renew(self.identity, &self.random, is_void)

    def set_genesis(self, uint8_t state, cluster, bytes membership=b""):
        cdef GenesisRecord record
        memset(&record, 0, sizeof(GenesisRecord))
        record.state = state
        record.cluster_low, record.cluster_high = cluster
        if membership:
            status = membership_decode(<const uint8_t*>membership, <uint32_t>len(membership), &record.membership)
            if status != OK:
                raise ValueError(f"membership: status {status}")
        return folder.identity_set_genesis(self.identity, &record)
