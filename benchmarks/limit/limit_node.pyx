"""The limit behind one asyncio future for each put: what this machine allows an API of this shape.

It decides nothing. It never checks, times out or reports a fate; futures are resolved in order, all that are
done at once, as raftmeta.aio does it.
"""

import asyncio

from libc.stdint cimport uint64_t
from libcpp.string cimport string

cdef extern from "limit.hpp" namespace "limit" nogil:
    cdef cppclass Leader:
        Leader(int listener, const string& path, size_t value_bytes, uint64_t outstanding)
        void submit(uint64_t key, const void* value)
        void flush()
        uint64_t done()
        uint64_t submitted()
        int wake_fd
    void answer_bell(int fd)


cdef class LimitNode:
    """The leader, on the running event loop; two followers are to connect to `listener`, a file descriptor."""
    cdef Leader* leader
    cdef size_t value_bytes
    cdef list waiting           # futures by the number of their entry, modulo its length
    cdef uint64_t resolved
    cdef bint is_flush_planned
    cdef object event_loop

    def __cinit__(self, int listener, str folder, size_t value_bytes, size_t outstanding_max):
        cdef string path = (folder + "/log-0").encode()
        self.value_bytes = value_bytes
        with nogil:
            self.leader = new Leader(listener, path, value_bytes, outstanding_max)
        self.waiting = [None] * (outstanding_max + 1)
        self.event_loop = asyncio.get_running_loop()
        self.event_loop.add_reader(self.leader.wake_fd, self._on_done)

    def close(self):
        """End both threads and the connections, which ends the followers."""
        self.event_loop.remove_reader(self.leader.wake_fd)
        with nogil:
            del self.leader
        self.leader = NULL

    def put(self, uint64_t key, bytes value not None):
        """A future that is done when the value is durable on a majority and applied here."""
        if <size_t>len(value) != self.value_bytes:
            raise ValueError(f"value: {self.value_bytes} bytes, not {len(value)}")
        future = self.event_loop.create_future()
        self.leader.submit(key, <const char*>value)
        self.waiting[self.leader.submitted() % <uint64_t>len(self.waiting)] = future
        if not self.is_flush_planned:
            self.is_flush_planned = True
            self.event_loop.call_soon(self._flush)
        return future

    def _flush(self):
        self.is_flush_planned = False
        self.leader.flush()

    def _on_done(self):
        cdef uint64_t end
        answer_bell(self.leader.wake_fd)
        end = self.leader.done()
        while self.resolved < end:
            self.resolved += 1
            future = self.waiting[self.resolved % <uint64_t>len(self.waiting)]
            if not future.done():
                future.set_result(None)
