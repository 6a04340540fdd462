# A DiskPort as a Python object, shared by the faces of the real and of the simulated disk.
from raftmeta.ports cimport DiskPort
from raftmeta.storage.disk cimport RealDisk

cdef bytes name_text(str name)

cdef class Disk:
    cdef DiskPort port

cdef class FolderDisk(Disk):
    cdef RealDisk disk
