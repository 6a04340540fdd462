"""Own logs of a Kafka door as Python sees them: bodies.

It decides nothing: what the door asks becomes a Python object, and its answer goes back. A request that nobody answers
is answered by an error when it is collected, so the door never waits for one that is gone.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from raftmeta.doors.kafka.own_asks cimport own_create, own_drop, own_news, own_tell
from raftmeta.doors.kafka.own_state cimport OWN_FETCH, OWN_LIST, OWN_PRODUCE
from raftmeta.doors.kafka.protocol cimport KAFKA_OK, KAFKA_UNKNOWN_SERVER_ERROR
from raftmeta.loop.tickets cimport Mail, mailbox_take
from raftmeta.native.atomics cimport add_shared, load_shared
from raftmeta.wire.topics cimport TOPIC_NAME_BYTES_MAX

PRODUCE = OWN_PRODUCE
FETCH = OWN_FETCH
LIST = OWN_LIST

cdef enum:
    RECORDS_BYTES_MAX = 4 << 20     # of one partition in an answer: the frame has room for it


cdef class OwnLogsHandle:
    def __cinit__(self, uint64_t bytes_max, uint64_t timeout_ns):
        self.own = own_create(bytes_max, timeout_ns)
        if self.own == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.own != NULL:
            own_drop(self.own)

    cdef OwnLogs* hold(self) noexcept:
        add_shared(&self.own.holders, <uint32_t>1)
        return self.own

    def fileno(self):
        return self.own.asked.event_fd

    @property
    def is_closing(self):
        return load_shared(&self.own.is_closing) != 0

    @property
    def broker(self):
        return load_shared(&self.own.broker)

    def take(self):
        cdef Mail* mail = mailbox_take(self.own.asked)
        cdef Mail* next
        cdef OwnRequest request
        cdef list taken = []
        while mail != NULL:
            next = mail.next
            request = OwnRequest.__new__(OwnRequest)
            request.logs = self
            request.ask = <OwnAsk*>mail
            request._read()
            taken.append(request)
            mail = next
        return taken

    def grown(self, bytes topic not None, int32_t partition):
        cdef OwnAsk* news
        if not 0 < len(topic) <= TOPIC_NAME_BYTES_MAX:
            return
        news = own_news(<const uint8_t*>PyBytes_AS_STRING(topic), <uint32_t>len(topic), partition)
        if news == NULL:
            raise MemoryError
        own_tell(self.own, news)


# Its end needs `logs`, also where it is found in a circle of garbage.
@cython.no_gc_clear
cdef class OwnRequest:
    def __init__(self):
        raise TypeError("requests come from OwnLogsHandle.take()")

    def __dealloc__(self):
        if self.ask != NULL:
            self.ask.code = KAFKA_UNKNOWN_SERVER_ERROR
            own_tell(self.logs.own, self.ask)

    cdef int _read(self) except -1:
        cdef OwnAsk* ask = self.ask
        self.kind = ask.kind
        self.topic = PyBytes_FromStringAndSize(<const char*>ask.name, ask.name_length).decode()
        self.partition = ask.partition
        self.epoch = ask.epoch
        self.number = ask.number
        self.bytes_max = ask.bytes_max
        self.records = PyBytes_FromStringAndSize(<const char*>ask.records, ask.records_length)
        return 0

    cdef OwnAsk* _answer(self) except NULL:
        if self.ask == NULL:
            raise ValueError("the request was answered before")
        return self.ask

    cdef int _tell(self, OwnAsk* ask, int16_t code) except -1:
        ask.code = code
        self.ask = NULL
        own_tell(self.logs.own, ask)
        return 0

    def appended(self, int64_t offset):
        cdef OwnAsk* ask = self._answer()
        ask.offset = offset
        ask.start = -1
        self._tell(ask, KAFKA_OK)

    def fetched(self, bytes records not None, int64_t start, int64_t end):
        cdef OwnAsk* ask = self._answer()
        cdef Py_ssize_t length = PyBytes_GET_SIZE(records)
        cdef uint8_t* copy = NULL
        if length > RECORDS_BYTES_MAX:
            raise ValueError("more records than an answer can have")
        if length:
            copy = <uint8_t*>malloc(<size_t>length)
            if copy == NULL:
                raise MemoryError
            memcpy(copy, PyBytes_AS_STRING(records), <size_t>length)
        free(ask.records)
        ask.records = copy
        ask.records_length = <uint32_t>length
        ask.start = start
        ask.end = end
        self._tell(ask, KAFKA_OK)

    def found(self, int64_t offset, int64_t timestamp):
        cdef OwnAsk* ask = self._answer()
        ask.offset = offset
        ask.timestamp = timestamp
        self._tell(ask, KAFKA_OK)

    def refused(self, int16_t code):
        self._tell(self._answer(), code if code != KAFKA_OK else KAFKA_UNKNOWN_SERVER_ERROR)
