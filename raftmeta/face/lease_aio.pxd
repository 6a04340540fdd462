# Leases: the asyncio face.
from raftmeta.face.lease cimport LeaseBase
from raftmeta.face.mailbox cimport MailboxFace

cdef class AioNodeLease(LeaseBase):
    cdef MailboxFace face
    cdef object watcher             # task that waits for the loss
    cdef readonly bint is_revoked
