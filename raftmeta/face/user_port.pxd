# A node as a user machine's copy and its callers see it. Native code of a node knows machines by name and bytes only.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.engine.submission cimport Submission
from raftmeta.face.node cimport Node
from raftmeta.loop.tickets cimport Mailbox, Ticket
from raftmeta.wire.commands cimport Command

cdef class UserPort:
    cdef Node node
    cdef bytes name
    cdef uint32_t place         # of the machine on this node, for events

    cdef int _post(self, Submission* submission) except -1
    cdef Ticket* _submit(self, Command* command, bytes data, uint64_t lowest, Mailbox* mailbox) except NULL
    cdef Ticket* _submit_call(self, bytes data, object fence, dict waiting, uint64_t* sequence,
                              Mailbox* mailbox) except NULL
    cdef int _await_users(self, uint64_t deadline_ns) except -1
