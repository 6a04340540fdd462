# Leases: the asyncio face.
from raftmeta.runtime.node_lease cimport LeaseBase
from raftmeta.runtime.node_mailbox cimport MailboxFace

cdef class AioLease(LeaseBase):
    cdef MailboxFace face
    cdef object watcher             # task that waits for the loss
    cdef bint is_revoked
