# Connections from outside: bytes come in and whole frames go up to the owner; what it appended to `out` goes out.
#
# It decides who is let in, how much of a connection may be unfinished or unread, and when it is closed. It never looks
# into a frame: the owner's rules do (state.pxd). It never waits for a connection, and takes no memory for a length that
# was only claimed.
#
# Bounds of a connection's memory: `received` holds at most one frame that is not whole and one read behind it, since
# nothing more is read while frames wait there. The owner's rules bound `out` and the requests under way.
#
# Half frames have a budget of their own (Connections.part_bytes): they never take the room of whole requests, their own
# included. While it is half full, a connection that has not ended its frame within a second is closed.
#
# Strangers: until a connection has proved who is there, it has hello_timeout_ns in all, and a place in
# Connections.unbound (net/unbound).
#
# Turns: what one turn makes is bounded, and a connection that has more to do comes again behind all others.
from libc.stdint cimport uint64_t

from raftmeta.connections.state cimport Connection, Connections

# --- the owner, of one connection -------------------------------------------------------------------------------------
# Bytes were appended to `out`: they leave at the end of the turn.
cdef void connection_touch(Connections* connections, Connection* connection) noexcept nogil
# The bytes that wait for it changed: count them.
cdef void connection_count(Connections* connections, Connection* connection) noexcept nogil
# It has more to do than fits this turn.
cdef void connection_next_turn(Connections* connections, Connection* connection) noexcept nogil
# It is looked at in each turn, until it does not wait any more. False: no memory.
cdef bint connection_wait(Connections* connections, Connection* connection) noexcept nogil
# It has proved who it is.
cdef void connection_prove(Connections* connections, Connection* connection) noexcept nogil
# The bytes appended so far are sent, then it is closed.
cdef void connection_end(Connections* connections, Connection* connection) noexcept nogil
# It is closed as soon as may be, and what was not sent is thrown away.
cdef void connection_fail(Connections* connections, Connection* connection) noexcept nogil
# It may have room again: take the frames that wait, and go on reading.
cdef void connection_resume(Connections* connections, Connection* connection) noexcept nogil
cdef void connection_close(Connections* connections, Connection* connection) noexcept nogil

# --- the thread (connections/turns) -----------------------------------------------------------------------------------
cdef void connections_accept(Connections* connections, int listener) noexcept nogil
cdef void connection_readable(Connections* connections, Connection* connection) noexcept nogil
cdef void connection_writable(Connections* connections, Connection* connection) noexcept nogil
# Those in line.
cdef void connections_wake(Connections* connections) noexcept nogil
# Everything appended before the call, one write for each connection; what that lets others append waits for the next.
cdef void connections_flush(Connections* connections) noexcept nogil
# Close those that did not prove in time who they are; those whose certificate is revoked now; those that are too slow.
cdef void connections_expire(Connections* connections) noexcept nogil
cdef void connections_drop_revoked(Connections* connections) noexcept nogil
cdef void connections_sweep(Connections* connections) noexcept nogil
# Whether others wait for room, or soon must.
cdef bint connections_are_pressed(const Connections* connections) noexcept nogil
# Close those that hold the most while answers of all of them together have more than `most` bytes.
cdef void connections_relieve(Connections* connections, uint64_t most) noexcept nogil
