# A caller's question as one object from its arguments to its answer: Request.
#
# It decides whether the arguments are right, how they are encoded, and when they may be encoded anew. It never decides
# how a request travels: its carrier does (face/node, face/aio, client/aio). All functions hold the GIL.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Fence

# The kind of a request, which is the kind of its answer.
cdef enum Purpose:
    PURPOSE_NOTHING = 0         # None
    PURPOSE_REVISION = 1        # Revision; the body is not wanted
    PURPOSE_PREVIOUS = 2        # Revision with the result of its one operation in .result
    PURPOSE_TXN = 3             # TxnReply
    PURPOSE_NUMBER = 4          # the body itself: a lease's id, a counter
    # of a client
    PURPOSE_RECORD = 5          # KeyRecord or None
    PURPOSE_RANGE = 6           # (count, more, records, revision)
    PURPOSE_VALUES = 7          # the values that stand one after another
    PURPOSE_BYTES = 8           # the body as it came; of a node as well
    PURPOSE_OUTCOME = 9         # of a user machine: the body as it came
    # of both
    PURPOSE_ZNODES = 12         # ZnodesReply
    PURPOSE_GROUP = 13          # (body, revision)
    # of a node
    PURPOSE_READ = 10           # None: now read the published state
    PURPOSE_WATCH = 11          # the 8 bytes of a Watch*

cdef class Request:
    cdef readonly uint8_t purpose
    cdef readonly bint is_answered      # nothing of it is left to be asked
    cdef bint is_urgent                 # it is taken also where there is no room for others
    cdef bint runs_python               # encoding it runs Python code, and so perhaps other threads
    cdef uint32_t value_bytes_max       # for which it was prepared; 0: it was not
    cdef object fence                   # operations.Fence or None: what `taken` points into
    cdef Fence taken

    # Check the arguments. Raises InvalidArgument, whose field names the one that is wrong.
    cdef int prepare(self, uint32_t value_bytes_max) except -1
    # The part of it that kinds of requests differ in.
    cdef int _take(self) except -1
    # Append the command to out, under this session and sequence; prepared.
    cdef int append(self, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                    Vec[uint8_t]* out) except -1
    # Its command was answered.
    cdef int _advance(self) except -1
    # It ends with this error.
    cdef int _fail(self, object error) except -1

# The arguments live in the request. lease: an id, None, or anything with `id`; fence: a Fence, None, or anything with
# `fence`.
cdef Request put_request(object key, object value, object lease, object fence, bint previous)

# An operations.Fence, None, or anything with `fence`.
cdef object fence_of(object fence)
cdef uint64_t lease_ttl_ms(object ttl_s) except 0
# An int of [0, 2**63), or anything that makes one.
cdef int take_revision(object revision, str field, uint64_t* into) except -1
# The answer to a command, from its result.
cdef object command_answer(uint8_t purpose, uint64_t revision, uint64_t index, const uint8_t* data, size_t length)
