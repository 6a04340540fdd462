"""The answers that callers get for tickets: a value, or the error that tells the operation's fate.

It decides how a result of the replicated machine looks in Python. It never waits and never asks the engine anything.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.bindings.commands cimport read_result
from raftmeta.bindings.revision cimport new_revision
from raftmeta.bindings.verbs cimport command_answer
from raftmeta.loop.tickets cimport Ticket
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.status cimport GROUP_REFUSED, OK, ZNODE_REFUSED

from raftmeta.errors import InvalidArgument, error_from_status, group_refused, znode_refused


cdef object answer_of(const Ticket* ticket, uint8_t purpose):
    if purpose == PURPOSE_REVISION:
        return new_revision(ticket.revision, ticket.index, None)
    if not purpose_wants_body(purpose):
        return None
    if purpose == PURPOSE_WATCH:
        return (<uint64_t*>ticket.body)[0]
    if purpose == PURPOSE_BYTES:
        return PyBytes_FromStringAndSize(<const char*>ticket.body, ticket.length)
    return command_answer(purpose, ticket.revision, ticket.index, ticket.body, ticket.length)


cdef object error_of(const Ticket* ticket):
    if ticket.status == ZNODE_REFUSED and ticket.body != NULL:
        position, code = read_result(ticket.body, ticket.length)[2]
        return znode_refused(position, code, ticket.revision)
    if ticket.status == GROUP_REFUSED and ticket.body != NULL:
        return group_refused(read_result(ticket.body, ticket.length)[2], ticket.revision)
    return error_from_status(ticket.status, revision=ticket.revision)


cdef int raise_status(int status, uint64_t revision) except -1:
    raise error_from_status(status, revision=revision)


cdef int raise_unless_ok(int status) except -1:
    if status != OK:
        raise_status(status, 0)
    return 0


cdef uint64_t deadline_after(object timeout_s) except? 0:
    cdef double seconds
    if timeout_s is None:
        return ~<uint64_t>0
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)):
        raise InvalidArgument(f"timeout_s: must be a number of seconds or None, not {timeout_s!r}", field="timeout_s")
    seconds = timeout_s
    if not 0 <= seconds <= 1e9:
        raise InvalidArgument(f"timeout_s: must be from 0 to 1e9 seconds, not {timeout_s!r}", field="timeout_s")
    return boot_now_ns() + <uint64_t>(seconds * 1e9)
