# The keys of a folder's files as a Python object: the faces own it, native threads read the ring in it.
from raftmeta.security.cipher cimport KeyRing

cdef class KeyRingHandle:
    cdef KeyRing* ring
