# A DiskPort as a Python object, shared by the faces of the real and of the simulated disk.
from raftmeta.ports cimport DiskPort
from raftmeta.security.cipher_handle cimport KeyRingHandle
from raftmeta.status cimport status_t
from raftmeta.storage.disk cimport RealDisk

cdef bytes name_text(str name)
cdef int check_disk(status_t status) except -1

cdef class Disk:
    cdef DiskPort port
    cdef KeyRingHandle keys     # port.keys, None: its files are plain

cdef class FolderDisk(Disk):
    cdef RealDisk disk
