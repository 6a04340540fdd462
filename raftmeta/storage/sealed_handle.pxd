# A writer and a reader of sealed files as Python objects, for faces that do more with them.
from raftmeta.storage.sealed cimport SealedReader, SealedWriter
from raftmeta.storage.storage_handle cimport Disk

cdef class SealedWriterHandle:
    cdef SealedWriter writer
    cdef Disk disk

cdef class SealedReaderHandle:
    cdef SealedReader reader
    cdef Disk disk
