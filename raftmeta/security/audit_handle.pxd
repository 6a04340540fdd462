# The rings and lines of an audit trail as a Python object: the faces own it, native threads push into its rings.
from raftmeta.native.containers cimport Vec
from raftmeta.security.audit_lines cimport AuditLines
from raftmeta.security.audit_queue cimport AuditTrail
from libc.stdint cimport uint8_t

cdef class AuditHandle:
    cdef AuditTrail* trail
    cdef AuditLines lines
    cdef Vec[uint8_t] out
