"""The sealed file as Python objects, for Python code that has no node; the engine never touches this module."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.native.intrinsics cimport Hash128
from raftmeta.status cimport OK
from raftmeta.storage cimport sealed
from raftmeta.storage.sealed cimport SealedHeader, SealedReader, SealedWriter
from raftmeta.storage.storage_handle cimport Disk, name_text


cdef class SealedWriterHandle:
    def __cinit__(self, Disk disk):
        self.disk = disk
        memset(<void*>&self.writer, 0, sizeof(SealedWriter))

    def __dealloc__(self):
        if self.writer.is_open:
            sealed.sealed_abandon(&self.writer)

    def begin(self, str name, *, point=(0, 0, 0), cluster=(0, 0), bytes membership=b"", uint32_t feature_level=1,
              uint64_t wall_ms=0, uint64_t membership_index=0):
        cdef SealedHeader header
        cdef bytes encoded = name_text(name)
        memset(&header, 0, sizeof(SealedHeader))
        header.point.index, header.point.term, header.point.chain = point
        header.cluster_low, header.cluster_high = cluster
        header.membership_index = membership_index
        header.membership_length = <uint32_t>len(membership)
        header.feature_level = feature_level
        header.wall_ms = wall_ms
        return sealed.sealed_begin(&self.writer, &self.disk.port, encoded, &header, <const uint8_t*>membership)

    def chunk(self, bytes records, *, uint32_t count=1, bytes split_key=None):
        cdef bytes key = split_key if split_key is not None else b""
        return sealed.sealed_chunk(&self.writer, <const uint8_t*>records, <uint32_t>len(records), count,
                                   <const uint8_t*>key, <uint32_t>len(key), split_key is not None)

    def seal(self, *, state_hash=(0, 0)):
        cdef Hash128 state
        state.low, state.high = state_hash
        return sealed.sealed_seal(&self.writer, &state)


cdef class SealedReaderHandle:
    def __cinit__(self, Disk disk):
        self.disk = disk
        memset(<void*>&self.reader, 0, sizeof(SealedReader))

    def __dealloc__(self):
        sealed.sealed_close(&self.reader)

    def open(self, str name):
        cdef bytes encoded = name_text(name)
        sealed.sealed_close(&self.reader)
        return sealed.sealed_open(&self.reader, &self.disk.port, encoded)

    @property
    def header(self):
        cdef SealedHeader* header = &self.reader.header
        return ((header.point.index, header.point.term, header.point.chain), (header.cluster_low, header.cluster_high),
                self.reader.membership.data[: self.reader.membership.size], header.feature_level, header.wall_ms)

    @property
    def membership_index(self):
        return self.reader.header.membership_index

    @property
    def footer(self):
        return (self.reader.footer.chunks, self.reader.footer.records, self.reader.footer.records_bytes,
                (self.reader.footer.state_hash.low, self.reader.footer.state_hash.high))

    def next(self):
        cdef const uint8_t* records = NULL
        cdef uint32_t length = 0
        cdef int status = sealed.sealed_next(&self.reader, &records, &length)
        return status, records[:length] if status == OK and length else b""

    def close(self):
        sealed.sealed_close(&self.reader)
