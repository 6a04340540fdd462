# The asyncio face of a node: its verbs as coroutines.
from raftmeta.face.mailbox cimport MailboxFace

cdef class Node(MailboxFace):
    cdef bint owns_node             # made with it: closes it
