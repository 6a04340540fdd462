# One turn of a thread with connections from outside, and the life of that thread.
#
#     connections_wait        sleep in epoll; a new turn begins
#     connections_look        bytes in, strangers in, bytes out where a socket takes more
#     ...                     the owner: mail of the loop, and what follows from it
#     connections_go_on       those in line; strangers whose time is over; one write for each connection
#     connections_rest        the listeners; True: it is time for connections_sweep, and for what the owner sweeps
#
# It decides when strangers are accepted. It never blocks in anything but epoll.
#
# Order of life: connections_prepare, connections_start, connections_stop, connections_release. Limits, rules, listeners
# the accounts and the audit trail are set before.
from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from raftmeta.connections.state cimport Connections
from raftmeta.native.threads cimport thread_body
from raftmeta.status cimport status_t

# The struct is zero. Takes the listeners over, also when it fails. False: no memory or no descriptor.
cdef bint connections_prepare(Connections* connections, size_t item_bytes, int mail_fd) noexcept nogil
# `body` is called with the Connections on a thread of this name, until is_closing.
cdef status_t connections_start(Connections* connections, thread_body body, const char* name) noexcept nogil
# True: the thread has ended, and every connection is closed. False: it did not end in time.
cdef bint connections_stop(Connections* connections, uint64_t timeout_ns) noexcept nogil
cdef void connections_release(Connections* connections) noexcept nogil
# On the thread where no signal can come, because TLS says goodbye on the socket; and again wherever the thread is gone.
cdef void connections_close_all(Connections* connections) noexcept nogil
# In a fork child, where there is no thread: only descriptors.
cdef void connections_close_in_child(Connections* connections) noexcept nogil

cdef void connections_wait(Connections* connections, int timeout_ms) noexcept nogil
cdef void connections_look(Connections* connections) noexcept nogil
cdef void connections_go_on(Connections* connections) noexcept nogil
cdef bint connections_rest(Connections* connections) noexcept nogil
