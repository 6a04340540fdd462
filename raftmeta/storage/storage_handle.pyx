"""A folder as a Python object, for Python code that has no node: it locks the folder, and lends its DiskPort."""
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.security.cipher_handle cimport KeyRingHandle
from raftmeta.status cimport OK, status_t
from raftmeta.storage.disk cimport real_disk_close, real_disk_lock, real_disk_open, real_disk_port
from raftmeta.storage.sealed cimport SealedHeader, sealed_header_decode
from raftmeta.storage.segment cimport SegmentHeader, segment_header_decode, segment_key_id


class DiskError(Exception):
    status = OK

    def __init__(self, status):
        super().__init__(f"disk call gave status {status}")
        self.status = status


# Raise DiskError unless the status is OK.
cdef int check_disk(status_t status) except -1:
    if status != OK:
        raise DiskError(status)
    return 0


# The system would end the name at its first NUL.
cdef bytes name_text(str name):
    if "\0" in name:
        raise ValueError(f"a name without NUL characters is needed, not {name!r}")
    return name.encode()


# --- encryption -------------------------------------------------------------------------------------------------------
# Those of the head of a segment or of a sealed file; None: it is none, or damaged.
def key_id_of_head(bytes head not None):
    cdef const uint8_t* bytes_of_head = <const uint8_t*>head
    cdef const uint8_t* membership = NULL
    cdef SegmentHeader segment
    cdef SealedHeader sealed
    cdef uint64_t begin = 0
    cdef uint64_t key_id = 0
    if segment_header_decode(bytes_of_head, <uint64_t>len(head), &segment, &membership, &begin) == OK:
        return segment_key_id(&segment, membership)
    if sealed_header_decode(bytes_of_head, <uint64_t>len(head), &sealed, &key_id) == OK:
        return key_id
    return None


# --- disks ------------------------------------------------------------------------------------------------------------
cdef class Disk:
    def use_keys(self, KeyRingHandle keys):
        self.keys = keys
        self.port.keys = keys.ring if keys is not None else NULL


cdef class FolderDisk(Disk):
    def __cinit__(self, path):
        cdef bytes encoded = name_text(str(path))
        check_disk(real_disk_open(&self.disk, encoded))
        self.port = real_disk_port(&self.disk)

    def __dealloc__(self):
        real_disk_close(&self.disk)

    def lock(self):
        cdef uint64_t holder = 0
        cdef status_t status = real_disk_lock(&self.disk, &holder)
        return status, holder

    def close(self):
        real_disk_close(&self.disk)
