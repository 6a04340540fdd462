"""Sessions: bodies.

The kept results of a session stand in a ring by sequence: slot of s is s & (capacity - 1), and no two sequences of
[floor, highest] share one. The ring grows with the distance of the two, which a well-behaved client keeps at the
number of its commands under way.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from raftmeta.machine.deadlines cimport deadline_after, deadlines_add, deadlines_remove
from raftmeta.machine.leases cimport FORMAT_TTL_MS_MAX
from raftmeta.machine.state_hash cimport hash_minus, hash_plus
from raftmeta.native.intrinsics cimport hash128
from raftmeta.native.marks cimport MARK_RESULT_EVICTED_FROM_SESSION, MARK_SESSION_OPENED_AGAIN, mark
from raftmeta.status cimport (BAD_FIELD, COMMAND_INVALID, ID_CONFLICT, NO_MEMORY, NOT_FOUND, OK, RESULT_EVICTED,
                              SESSION_UNKNOWN)

cdef enum:
    # Keep the hashes of the parts apart.
    FORMAT_SESSION_SEED = 0x5e551
    FORMAT_RESULT_SEED = 0x5e552
    FORMAT_ENDED_SEED = 0x5e553
    RING_SLOTS_MIN = 8

# The part of a session that the state hash covers, beside its results.
cdef packed struct SessionImage:
    uint64_t id
    uint64_t ttl_ms
    uint64_t deadline_ms
    uint64_t floor
    uint64_t highest
    uint64_t window

cdef packed struct KeptImage:
    uint64_t session
    uint64_t sequence
    uint64_t revision


# --- the state hash ---------------------------------------------------------------------------------------------------
cdef void _hash_in(Sessions* sessions, Session* session) noexcept nogil:
    cdef SessionImage image
    image.id = session.due.id
    image.ttl_ms = session.ttl_ms
    image.deadline_ms = session.due.deadline_ms
    image.floor = session.floor
    image.highest = session.highest
    image.window = session.window
    session.addend = hash128(FORMAT_SESSION_SEED, &image, sizeof(SessionImage))
    sessions.sum = hash_plus(sessions.sum, session.addend)

# Before a session changes. A row of commands of one session, the common case, then costs one hash and not two for each.
cdef inline void _hash_out(Sessions* sessions, Session* session) noexcept nogil:
    if sessions.changing == session:
        return
    if sessions.changing != NULL:
        _hash_in(sessions, sessions.changing)
    sessions.sum = hash_minus(sessions.sum, session.addend)
    sessions.changing = session

cdef Hash128 sessions_hash(Sessions* sessions) noexcept nogil:
    if sessions.changing != NULL:
        _hash_in(sessions, sessions.changing)
        sessions.changing = NULL
    return sessions.sum

cdef inline Hash128 _kept_hash(const Session* session, const Kept* kept) noexcept nogil:
    cdef KeptImage image
    cdef Hash128 body = hash128(FORMAT_RESULT_SEED, kept_body(kept), kept.length)
    image.session = session.due.id
    image.sequence = kept.sequence
    image.revision = kept.revision
    return hash128(body.low ^ body.high, &image, sizeof(KeptImage))

cdef inline Hash128 _ended_hash(uint64_t id) noexcept nogil:
    return hash128(FORMAT_ENDED_SEED, &id, sizeof(uint64_t))


# --- life of a session ------------------------------------------------------------------------------------------------
cdef inline void _free_long_body(Kept* kept) noexcept nogil:
    if kept.length > SHORT_BODY_BYTES:
        free(kept_body(kept))

cdef void _free_session(Session* session) noexcept nogil:
    cdef uint64_t slot
    for slot in range(session.capacity):
        _free_long_body(&session.ring[slot])
    free(session.ring)
    free(session)

cdef void sessions_release(Sessions* sessions) noexcept nogil:
    cdef size_t position = sessions.by_id.next(0)
    while position < sessions.by_id.end():
        _free_session(sessions.by_id.value_at(position))
        position = sessions.by_id.next(position + 1)
    sessions.by_id.release()
    sessions.deadlines.heap.release()
    sessions.ended.release()
    sessions.ended_order.release()

cdef Session* sessions_find(Sessions* sessions, uint64_t id) noexcept nogil:
    cdef Session** found = sessions.by_id.find(id)
    return found[0] if found != NULL else NULL

cdef status_t sessions_open(Sessions* sessions, uint64_t id, uint64_t ttl_ms, uint32_t window,
                            uint64_t lease_ms) noexcept nogil:
    cdef Session image
    cdef Session* session = sessions_find(sessions, id)
    if id == 0 or ttl_ms == 0 or ttl_ms > FORMAT_TTL_MS_MAX or window == 0:
        return COMMAND_INVALID
    # 1. OPEN is sent, its answer is lost, the session lives and ends. 2. The first OPEN, or a retry, arrives late.
    # 3. Were the id open again, old commands of it would be applied a second time.
    if sessions.ended.find(id) != NULL:
        return SESSION_UNKNOWN
    if session != NULL:
        if session.ttl_ms != ttl_ms or session.window != window:
            return ID_CONFLICT
        mark(MARK_SESSION_OPENED_AGAIN)
        session_advance(sessions, session, 0, lease_ms)
        return OK
    memset(&image, 0, sizeof(Session))
    image.due.id = id
    image.due.deadline_ms = deadline_after(lease_ms, ttl_ms)
    image.ttl_ms = ttl_ms
    image.window = window
    image.floor = 1
    return OK if sessions_restore(sessions, &image) != NULL else NO_MEMORY

cdef Session* sessions_restore(Sessions* sessions, const Session* image) noexcept nogil:
    cdef Session* session = <Session*>malloc(sizeof(Session))
    cdef Session** slot = sessions.by_id.insert(image.due.id) if session != NULL else NULL
    if slot == NULL:
        free(session)
        return NULL
    session[0] = image[0]
    slot[0] = session
    if not deadlines_add(&sessions.deadlines, &session.due):
        sessions.by_id.erase(image.due.id)
        free(session)
        return NULL
    _hash_in(sessions, session)
    return session

cdef bint sessions_end(Sessions* sessions, Session* session) noexcept nogil:
    if not sessions_remember_ended(sessions, session.due.id):
        return False
    _forget_below(sessions, session, session.highest + 1)
    _hash_out(sessions, session)
    sessions.changing = NULL
    deadlines_remove(&sessions.deadlines, &session.due)
    sessions.by_id.erase(session.due.id)
    _free_session(session)
    return True

cdef bint sessions_remember_ended(Sessions* sessions, uint64_t id) noexcept nogil:
    if sessions.ended.insert(id) == NULL:
        return False
    if not sessions.ended_order.push(id):
        sessions.ended.erase(id)
        return False
    sessions.sum = hash_plus(sessions.sum, _ended_hash(id))
    if sessions.ended_order.size > FORMAT_ENDED_MAX:
        sessions.sum = hash_minus(sessions.sum, _ended_hash(sessions.ended_order.front()))
        sessions.ended.erase(sessions.ended_order.front())
        sessions.ended_order.pop_front()
    return True


# --- commands of a session --------------------------------------------------------------------------------------------
cdef void session_advance(Sessions* sessions, Session* session, uint64_t lowest_unanswered,
                          uint64_t lease_ms) noexcept nogil:
    _hash_out(sessions, session)
    session.due.deadline_ms = deadline_after(lease_ms, session.ttl_ms)
    if lowest_unanswered > session.floor:
        _forget_below(sessions, session, lowest_unanswered)

cdef status_t session_lookup(Session* session, uint64_t sequence, const Kept** kept) noexcept nogil:
    if sequence < session.floor:
        mark(MARK_RESULT_EVICTED_FROM_SESSION)
        return RESULT_EVICTED
    if sequence > session.highest:
        return NOT_FOUND
    cdef Kept* slot = &session.ring[sequence & (session.capacity - 1)]
    if slot.sequence != sequence:
        return NOT_FOUND
    kept[0] = slot
    return OK

cdef bint session_keep(Sessions* sessions, Session* session, uint64_t sequence, uint64_t revision, const uint8_t* body,
                       uint32_t length) noexcept nogil:
    _hash_out(sessions, session)
    if sequence >= session.window and sequence - session.window >= session.floor:
        _forget_below(sessions, session, sequence - session.window + 1)
    if not _place(sessions, session, sequence, revision, body, length):
        return False
    # The result just kept stays, however long it is: its caller waits for it.
    while session.kept_bytes > FORMAT_KEPT_BYTES_MAX and session.floor < sequence:
        _forget_below(sessions, session, session.floor + 1)
    return True

cdef bint _place(Sessions* sessions, Session* session, uint64_t sequence, uint64_t revision, const uint8_t* body,
                 uint32_t length) noexcept nogil:
    cdef uint64_t highest = max(session.highest, sequence)
    cdef uint8_t* target
    if highest - session.floor >= session.capacity and not _grow(session, highest - session.floor + 1):
        return False
    cdef Kept* kept = &session.ring[sequence & (session.capacity - 1)]
    target = kept.body
    if length > SHORT_BODY_BYTES:
        target = <uint8_t*>malloc(length)
        if target == NULL:
            return False
        (<uint8_t**>kept.body)[0] = target
    memcpy(target, body, length)
    kept.sequence = sequence
    kept.revision = revision
    kept.length = length
    kept.addend = _kept_hash(session, kept)
    session.highest = highest
    session.kept_bytes += length
    sessions.sum = hash_plus(sessions.sum, kept.addend)
    return True

cdef bint _grow(Session* session, uint64_t slots) noexcept nogil:
    cdef uint64_t capacity = max(session.capacity, <uint64_t>RING_SLOTS_MIN)
    cdef uint64_t slot
    while capacity < slots:
        capacity *= 2
    cdef Kept* ring = <Kept*>calloc(capacity, sizeof(Kept))
    if ring == NULL:
        return False
    for slot in range(session.capacity):
        if session.ring[slot].sequence != 0:
            ring[session.ring[slot].sequence & (capacity - 1)] = session.ring[slot]
    free(session.ring)
    session.ring = ring
    session.capacity = capacity
    return True

# Sequences below `floor` are forgotten. However far a client leaps, no more than the ring holds is walked.
cdef void _forget_below(Sessions* sessions, Session* session, uint64_t floor) noexcept nogil:
    cdef uint64_t end = min(floor, session.highest + 1)
    cdef uint64_t sequence = session.floor
    cdef Kept* kept
    while sequence < end:
        kept = &session.ring[sequence & (session.capacity - 1)]
        if kept.sequence == sequence:
            sessions.sum = hash_minus(sessions.sum, kept.addend)
            session.kept_bytes -= kept.length
            _free_long_body(kept)
            memset(kept, 0, sizeof(Kept))
        sequence += 1
    session.floor = floor


# --- loading ----------------------------------------------------------------------------------------------------------
cdef status_t session_restore_kept(Sessions* sessions, Session* session, uint64_t sequence, uint64_t revision,
                                   const uint8_t* body, uint32_t length) noexcept nogil:
    cdef const Kept* kept = NULL
    if sequence < session.floor or sequence > session.highest:
        return BAD_FIELD
    if session.capacity != 0 and session_lookup(session, sequence, &kept) == OK:
        return BAD_FIELD
    return OK if _place(sessions, session, sequence, revision, body, length) else NO_MEMORY
