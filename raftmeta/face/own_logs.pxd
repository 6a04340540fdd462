# Own logs of a Kafka door as Python sees them: requests of clients, one partition each, and their answers.
from libc.stdint cimport int16_t

from raftmeta.doors.kafka.own_state cimport OwnAsk, OwnLogs

cdef class OwnLogsHandle:
    cdef OwnLogs* own           # a hold on it

    # A hold for the door.
    cdef OwnLogs* hold(self) noexcept

cdef class OwnRequest:
    cdef OwnLogsHandle logs
    cdef OwnAsk* ask            # NULL: it was answered
    cdef readonly object kind   # PRODUCE, FETCH, LIST
    cdef readonly object topic
    cdef readonly object partition
    cdef readonly object epoch
    cdef readonly object number
    cdef readonly object bytes_max
    cdef readonly object records

    cdef int _read(self) except -1
    cdef OwnAsk* _answer(self) except NULL
    cdef int _tell(self, OwnAsk* ask, int16_t code) except -1
