# Leases: the asyncio face.
from raftmeta.face.lease cimport LeaseBase
from raftmeta.face.mailbox cimport MailboxFace

cdef class AioLease(LeaseBase):
    cdef MailboxFace face
    cdef object watcher             # task that waits for the loss
    cdef bint is_revoked
