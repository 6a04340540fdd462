# Watching keys: the asyncio face.
from raftmeta.runtime.node_mailbox cimport MailboxFace
from raftmeta.runtime.node_watch cimport WatchBase

cdef class AioWatch(WatchBase):
    cdef MailboxFace face
    cdef object waiter              # future of a consumer that waits for news
    cdef bint has_news
    cdef object timeout_s
