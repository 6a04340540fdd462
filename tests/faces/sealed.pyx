"""The sealed file for tests: what only tests do with a writer or a reader."""
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.status cimport OK
from raftmeta.storage cimport sealed, sealed_handle
from raftmeta.storage.sealed cimport SealedSplit


cdef class SealedWriterHandle(sealed_handle.SealedWriterHandle):
    @property
    def broken(self):
        return self.writer.broken.what, self.writer.broken.a, self.writer.broken.b

    def sync(self):
        return sealed.sealed_sync(&self.writer)

    def abandon(self):
        sealed.sealed_abandon(&self.writer)


cdef class SealedReaderHandle(sealed_handle.SealedReaderHandle):
    def splits(self):
        cdef SealedSplit split
        cdef const uint8_t* key = NULL
        found = []
        while sealed.sealed_split(&self.reader, <uint32_t>len(found), &split, &key) == OK:
            found.append((split.chunk, key[: split.key_length] if split.key_length else b""))
        return found

    def seek(self, uint32_t position):
        return sealed.sealed_seek(&self.reader, position)
