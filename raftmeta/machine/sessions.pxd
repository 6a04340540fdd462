# Sessions: which commands of a client were applied and what they answered, so that a retry is not applied twice
# (thesis 6.3).
#
# A session keeps the results of the sequences [floor, highest]; a sequence below floor is answered RESULT_EVICTED and
# not applied, for nobody can tell any more whether it was. Sequences may come in any order. It never applies anything.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.deadlines cimport Deadlines, Due
from raftmeta.machine.leases cimport FORMAT_TTL_MS_MAX
from raftmeta.native.containers cimport Map64, Ring
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.status cimport status_t

cdef enum:
    # Replicated state depends on them: as FORMAT_.
    FORMAT_KEPT_BYTES_MAX = 16 << 20    # result bytes kept per session, beside the window
    FORMAT_ENDED_MAX = 65_536           # ended ids remembered, so that a late OPEN does not revive one
    SHORT_BODY_BYTES = 28               # result of a plain put, or of an addition, fits: no allocation

# The kept result of one applied command: one cache line.
cdef struct Kept:
    uint64_t sequence           # 0: the slot is empty
    uint64_t revision
    Hash128 addend              # its part of Sessions.hash
    uint8_t[SHORT_BODY_BYTES] body      # where there is more: a pointer to the bytes (kept_body)
    uint32_t length

cdef struct Session:
    Due due                     # first: a Due* of the heap is a Session*
    uint64_t ttl_ms
    uint64_t floor              # every sequence below is forgotten; from 1
    uint64_t highest            # highest sequence applied; 0: none
    uint64_t kept_bytes
    uint32_t window
    Kept* ring                  # sequence s stands at s & (capacity - 1)
    uint64_t capacity           # 0 or a power of two
    Hash128 addend              # its part of Sessions.sum, results apart; not while it is Sessions.changing

cdef struct Sessions:
    Map64[Session*] by_id
    Deadlines deadlines
    Map64[uint8_t] ended        # ids of closed and expired sessions ...
    Ring[uint64_t] ended_order  # ... the oldest first
    Hash128 sum                 # over sessions but `changing`, kept results and ended ids, mod 2^128
    Session* changing           # the one that commands came for last: its addend waits until someone asks, NULL: none

cdef inline uint8_t* kept_body(const Kept* kept) noexcept nogil:
    if kept.length > SHORT_BODY_BYTES:
        return (<uint8_t**>kept.body)[0]
    return <uint8_t*>kept.body

cdef void sessions_release(Sessions* sessions) noexcept nogil
# Over all sessions, kept results and ended ids.
cdef Hash128 sessions_hash(Sessions* sessions) noexcept nogil
cdef Session* sessions_find(Sessions* sessions, uint64_t id) noexcept nogil
# Ids are random, so whoever knows one and its terms is its opener: opening it again only renews it. ID_CONFLICT: open
# with another ttl or window. SESSION_UNKNOWN: this id has ended. COMMAND_INVALID: id, ttl_ms or window out of range.
# NO_MEMORY.
cdef status_t sessions_open(Sessions* sessions, uint64_t id, uint64_t ttl_ms, uint32_t window,
                            uint64_t lease_ms) noexcept nogil
# The session ends and its id is remembered as ended. False: no memory.
cdef bint sessions_end(Sessions* sessions, Session* session) noexcept nogil

# A command of the session came at lease_ms: it is renewed, and what its caller has seen is forgotten.
cdef void session_advance(Sessions* sessions, Session* session, uint64_t lowest_unanswered,
                          uint64_t lease_ms) noexcept nogil
# Look a sequence up: NOT_FOUND (not applied yet), RESULT_EVICTED, or OK and *kept (until the next apply).
cdef status_t session_lookup(Session* session, uint64_t sequence, const Kept** kept) noexcept nogil
# Keep the result of a sequence that was NOT_FOUND; the oldest are evicted beyond window and bytes. False: no memory.
cdef bint session_keep(Sessions* sessions, Session* session, uint64_t sequence, uint64_t revision, const uint8_t* body,
                       uint32_t length) noexcept nogil

# --- loading ----------------------------------------------------------------------------------------------------------
# A session as it was: terms, deadline, floor and highest of `image`. NULL: no memory.
cdef Session* sessions_restore(Sessions* sessions, const Session* image) noexcept nogil
# BAD_FIELD: not a sequence of [floor, highest], or there already. NO_MEMORY.
cdef status_t session_restore_kept(Sessions* sessions, Session* session, uint64_t sequence, uint64_t revision,
                                   const uint8_t* body, uint32_t length) noexcept nogil
# An id that ended; the oldest first. False: no memory.
cdef bint sessions_remember_ended(Sessions* sessions, uint64_t id) noexcept nogil
