# What a node tells about itself: status, metrics, events.
from libc.stdint cimport uint64_t

from raftmeta.runtime.event_log cimport EventLog
from raftmeta.runtime.node_base cimport NodeBase

cdef object status_of(NodeBase node)
# restart_maxima: the longest times begin anew.
cdef dict metrics_of(NodeBase node, bint restart_maxima)

cdef class EventReader:
    cdef NodeBase node
    cdef EventLog* log
    cdef uint64_t seen          # number of the last event given out
    cdef object timeout_s       # how long one next() waits; None: until the node is closed
