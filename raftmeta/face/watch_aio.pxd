# Watching keys: the asyncio face.
from raftmeta.face.mailbox cimport MailboxFace
from raftmeta.face.watch cimport WatchBase

cdef class AioNodeWatch(WatchBase):
    cdef MailboxFace face
    cdef object waiter              # future of a consumer that waits for news
    cdef bint has_news
