# A node's report about itself: status, metrics, events.
from libc.stdint cimport uint64_t

from raftmeta.face.base cimport NodeBase
from raftmeta.loop.event_log cimport EventLog

cdef object status_of(NodeBase node)
# Rows of raftmeta/members/rows: of the membership in force, with its index and whether it is joint; of connections.
cdef tuple membership_rows(NodeBase node)
cdef list link_rows(NodeBase node)
# restart_maxima: the longest times begin anew.
cdef dict metrics_of(NodeBase node, bint restart_maxima)
# As the file `flight.ring` has it; empty without a flight recorder.
cdef bytes flight_recorder_of(NodeBase node)

cdef class EventReader:
    cdef NodeBase node
    cdef EventLog* log
    cdef uint64_t seen          # number of the last event given out
    cdef object timeout_s       # how long one next() waits; None: until the node is closed
