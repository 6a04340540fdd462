"""Sealed files between members.

It decides whom to ask, how far ahead, and when to give up. It must never look into a file, send what was
not asked for, or let a transfer's bytes wait in front of the log's: a few pieces are under way per member, no more.

Receiving, state by state (engine/snapshots/state):
    NOTHING --offer--> PIECES --all on the disk--> LOADING --sound--> LOADED --> engine/snapshots/install
                          |                           |
                          | no member has it,         | damaged
                          | or not needed any more    v
                          +-----> ABANDONED -----> NOTHING
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta._core cimport (LEADER, PEER_SNAPSHOT_FAILED, PEER_SNAPSHOT_SENT, core_peer_event)
from raftmeta.engine.disk_jobs cimport (JOB_ABANDON, JOB_CHECK, JOB_LOAD, JOB_PIECE, JOB_RECEIVE, disk_job_create,
                                        disk_job_destroy)
from raftmeta.engine.sending cimport link_of_member, send_snapshot
from raftmeta.engine.snapshots.files cimport Checking, Receiving
from raftmeta.engine.snapshots.state cimport (RECEIVING_ABANDONED, RECEIVING_LOADED, RECEIVING_LOADING,
                                              RECEIVING_NOTHING, RECEIVING_PIECES, Snapshots)
from raftmeta.engine.snapshots.taking cimport snapshots_drop_file, snapshots_have_use, snapshots_submit
from raftmeta.engine.state cimport EVENT_SNAPSHOT_FAILED, EVENT_SNAPSHOT_OFFERED, Link
from raftmeta.native.buggify cimport (BUGGIFY_FETCH_ELSEWHERE, BUGGIFY_FETCH_GIVEN_UP, BUGGIFY_FILE_DENIED,
                                      BUGGIFY_PIECE_SMALL, buggify)
from raftmeta.native.chunks cimport chunk_drop, chunk_hold
from raftmeta.native.marks cimport (MARK_ALL_PIECES_THERE, MARK_FETCH_FROM_ANOTHER, MARK_FETCH_OF_GONE_FILE,
                                    MARK_NOBODY_HAS_THE_FILE, MARK_OFFER_NOT_NEEDED, MARK_OFFER_OF_BETTER_FILE,
                                    MARK_OFFER_TAKEN, MARK_OFFER_TIMED_OUT, MARK_OFFER_TO_UNCONNECTED,
                                    MARK_OFFER_WHILE_RECEIVING, MARK_PIECE_NOT_WRITTEN, MARK_PIECE_OUT_OF_ORDER,
                                    MARK_RECEIVING_ABANDONED_MIDWAY, mark)
from raftmeta.raft.types cimport MEMBERS_MAX, index_t
from raftmeta.status cimport NO_MEMORY, OK, is_fatal, status_t
from raftmeta.wire.snapshot_messages cimport (SNAPSHOT_FETCH, SNAPSHOT_GONE, SNAPSHOT_OFFER, SNAPSHOT_PIECE,
                                              SnapshotFile, is_same_file)

cdef enum:
    TUNE_PIECES_AHEAD = 4       # asked for and not yet on the disk: a piece is a chunk, 256 KiB in production
    PIECES_OPEN_MAX = 8         # being read for one member; what it asks beyond that it asks again
    SILENCES_MAX = 16           # holders in a row that gave nothing: no member has this file any more
    OFFER_TIMEOUTS = 3          # x election time-out without a word: the member does not fetch it

cdef index_t LENT_LATER = <index_t>-1      # Link.lent: there is no file yet


cdef void _say(Engine* engine, uint32_t link, uint8_t type, const SnapshotFile* file, uint64_t offset, uint32_t length,
               const Slice* piece) noexcept nogil:
    cdef SnapshotMessage message
    memset(&message, 0, sizeof(SnapshotMessage))
    message.type = type
    message.file = file[0]
    message.offset = offset
    message.length = length
    send_snapshot(engine, link, &message, piece)


# --- the side that has it ---------------------------------------------------------------------------------------------
cdef void _offer(Engine* engine, uint32_t place) noexcept nogil:
    cdef Link* link = &engine.links.table[place]
    link.lent_tick = engine.ticks
    link.lent = engine.snapshots.files.back().point.index
    engine.callers.event(engine.callers.self, EVENT_SNAPSHOT_OFFERED, link.lent, place, 0)
    _say(engine, place, SNAPSHOT_OFFER, &engine.snapshots.files.back(), 0, 0, NULL)


cdef void transfer_offer(Engine* engine, member_id_t member) noexcept nogil:
    cdef int place = link_of_member(&engine.links, member)
    if place < 0 or not engine.links.table[place].is_up:
        mark(MARK_OFFER_TO_UNCONNECTED)
        return      # when it is back the core asks anew
    if snapshots_have_use(&engine.snapshots):
        _offer(engine, place)
        return
    engine.links.table[place].lent_tick = engine.ticks
    engine.links.table[place].lent = LENT_LATER
    engine.snapshots.file_is_wanted = True


cdef bint _has_file(const Engine* engine, const SnapshotFile* file) noexcept nogil:
    cdef size_t i
    for i in range(engine.snapshots.files.size):
        if is_same_file(&engine.snapshots.files.data[i], file):
            return True
    return False


# While a member fetches a file, that and the log behind it stay: else it would be too late when it is done.
cdef void _lend(Engine* engine, uint32_t link, index_t index) noexcept nogil:
    engine.links.table[link].lent = index
    engine.links.table[link].lent_tick = engine.ticks
    engine.snapshots.lent = index
    engine.snapshots.lent_tick = engine.ticks


cdef status_t _submit_check(Engine* engine) noexcept nogil:
    cdef DiskJob* job = disk_job_create(JOB_CHECK)
    if job == NULL:
        return NO_MEMORY
    job.checking = &engine.snapshots.checking
    return snapshots_submit(engine, job)


# Read the file once more, in the background, one at a time: it may have gone bad since it was sealed.
cdef status_t _check(Engine* engine, const SnapshotFile* file) noexcept nogil:
    if engine.snapshots.is_checking:
        return OK
    memset(<void*>&engine.snapshots.checking, 0, sizeof(Checking))
    engine.snapshots.checking.file = file[0]
    engine.snapshots.is_checking = True
    return _submit_check(engine)


# A file that is not what it was goes; who was offered it is offered the next one as soon as that is there.
cdef status_t _checked(Engine* engine, status_t status) noexcept nogil:
    cdef const SnapshotFile* file = &engine.snapshots.checking.file
    cdef int i
    if status == OK and not engine.snapshots.checking.is_done:
        return _submit_check(engine)
    engine.snapshots.is_checking = False
    if status == OK or is_fatal(status):
        return status
    for i in range(MEMBERS_MAX):
        if engine.links.table[i].is_used and engine.links.table[i].lent == file.point.index:
            engine.links.table[i].lent = LENT_LATER
            engine.links.table[i].lent_tick = engine.ticks
    return snapshots_drop_file(engine, file, status)


# How a file that went bad under its holder would be offered for ever:
#     1. a member gets all of it, finds it damaged, and throws it away,
#     2. it still needs a snapshot: the leader offers the same file, and the member asks for it from its beginning.
# So whoever gave a file to its end and is asked for it again looks whether it still is what it was.
cdef status_t _look_at_given(Engine* engine, Link* link, const SnapshotMessage* message) noexcept nogil:
    if message.offset != 0 or not is_same_file(&link.given, &message.file):
        return OK
    memset(<void*>&link.given, 0, sizeof(SnapshotFile))
    return _check(engine, &message.file)


cdef status_t _on_fetch(Engine* engine, uint32_t link, const SnapshotMessage* message) noexcept nogil:
    cdef DiskJob* job
    cdef status_t status
    if not _has_file(engine, &message.file):
        if message.length != 0:
            mark(MARK_FETCH_OF_GONE_FILE)
            _say(engine, link, SNAPSHOT_GONE, &message.file, 0, 0, NULL)
        return OK
    if message.length != 0 and buggify(BUGGIFY_FILE_DENIED):
        _say(engine, link, SNAPSHOT_GONE, &message.file, 0, 0, NULL)
        return OK
    _lend(engine, link, message.file.point.index)
    if message.length == 0 or engine.links.table[link].pieces_open >= PIECES_OPEN_MAX:
        return OK
    job = disk_job_create(JOB_PIECE)
    if job == NULL:
        return NO_MEMORY
    job.peer = engine.links.table[link].id
    job.file = message.file
    job.offset = message.offset
    job.bytes_max = message.length
    engine.links.table[link].pieces_open += 1
    status = snapshots_submit(engine, job)
    return status if status != OK else _look_at_given(engine, &engine.links.table[link], message)


cdef status_t _piece_read(Engine* engine, DiskJob* job) noexcept nogil:
    cdef int place = link_of_member(&engine.links, job.peer)
    cdef status_t status = job.status
    if place >= 0:
        engine.links.table[place].pieces_open -= min(engine.links.table[place].pieces_open, <uint32_t>1)
        if status == OK:
            engine.counters.snapshot_bytes_sent += job.records.length
            _say(engine, place, SNAPSHOT_PIECE, &job.file, job.offset, job.records.length, &job.records)
            if job.offset + job.records.length == job.file.size_bytes:
                engine.links.table[place].given = job.file
                core_peer_event(engine.core, PEER_SNAPSHOT_SENT, job.peer)
        else:
            _say(engine, place, SNAPSHOT_GONE, &job.file, 0, 0, NULL)
    chunk_drop(job.records.chunk)
    disk_job_destroy(job)
    return status if is_fatal(status) else OK


# A file that was missing is offered as soon as it is there. A member that does not fetch is tried again when it
# answers the next heartbeat.
cdef status_t _watch_offers(Engine* engine) noexcept nogil:
    cdef uint64_t patience = OFFER_TIMEOUTS * <uint64_t>engine.config.core.election_timeout_ticks
    cdef status_t status = OK
    cdef Link* link
    cdef int i
    for i in range(MEMBERS_MAX):
        link = &engine.links.table[i]
        if link.is_used and link.is_up and link.lent == LENT_LATER and snapshots_have_use(&engine.snapshots):
            _offer(engine, i)
        if link.is_used and link.lent != 0 and engine.ticks - link.lent_tick > patience and not is_fatal(status):
            mark(MARK_OFFER_TIMED_OUT)
            link.lent = 0
            link.pieces_open = 0
            status = core_peer_event(engine.core, PEER_SNAPSHOT_FAILED, link.id)
    return status if is_fatal(status) else OK


# --- the side that needs it -------------------------------------------------------------------------------------------
cdef status_t _submit(Engine* engine, DiskJob* job) noexcept nogil:
    if job == NULL:
        return NO_MEMORY
    job.receiving = &engine.snapshots.receiving
    job.limits = &engine.config.machine
    engine.snapshots.jobs_open += 1
    return snapshots_submit(engine, job)


# The part that a job works on is taken away when the job is back.
cdef status_t _abandon(Engine* engine) noexcept nogil:
    mark(MARK_RECEIVING_ABANDONED_MIDWAY)
    engine.snapshots.receiving_state = RECEIVING_ABANDONED
    if engine.snapshots.jobs_open != 0:
        return OK
    return _submit(engine, disk_job_create(JOB_ABANDON))


# Ask for what comes next, not further ahead of the disk than TUNE_PIECES_AHEAD.
cdef void _ask(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef uint64_t piece_bytes = engine.config.snapshot_chunk_bytes
    cdef uint64_t size_bytes = snapshots.receiving.file.size_bytes
    cdef uint32_t length
    while snapshots.asked < size_bytes and snapshots.asked < snapshots.written + TUNE_PIECES_AHEAD * piece_bytes:
        length = <uint32_t>min(piece_bytes, size_bytes - snapshots.asked)
        if buggify(BUGGIFY_PIECE_SMALL):
            length = (length + 3) // 4
        _say(engine, snapshots.holder, SNAPSHOT_FETCH, &snapshots.receiving.file, snapshots.asked, length, NULL)
        snapshots.asked += length


# This goes on: the holder keeps the file, and the log behind it.
cdef void _note(Engine* engine, uint32_t link) noexcept nogil:
    engine.snapshots.noted_tick = engine.ticks
    _say(engine, link, SNAPSHOT_FETCH, &engine.snapshots.receiving.file, 0, 0, NULL)


# Go on where we are with the next member that is there; pieces that still come from before are as good.
cdef void _ask_another(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef uint32_t i, place
    mark(MARK_FETCH_FROM_ANOTHER)
    snapshots.asked = snapshots.received
    snapshots.silences += 1
    snapshots.progress_tick = engine.ticks
    for i in range(1, <uint32_t>MEMBERS_MAX + 1):
        place = (snapshots.holder + i) % <uint32_t>MEMBERS_MAX
        if engine.links.table[place].is_up and engine.links.table[place].is_wanted:
            snapshots.holder = place
            break
    _ask(engine)


cdef status_t _on_offer(Engine* engine, uint32_t link, const SnapshotFile* file) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    if file.point.index <= engine.applying.applied or engine.core_status.role == LEADER:
        mark(MARK_OFFER_NOT_NEEDED)
        return OK
    if snapshots.receiving_state == RECEIVING_NOTHING:
        memset(<void*>&snapshots.receiving, 0, sizeof(Receiving))
        snapshots.receiving.file = file[0]
        mark(MARK_OFFER_TAKEN)
        snapshots.receiving_state = RECEIVING_PIECES
        snapshots.asked = snapshots.received = snapshots.written = 0
        snapshots.holder = link
        snapshots.silences = 0
        snapshots.progress_tick = snapshots.noted_tick = engine.ticks
        _ask(engine)
    elif snapshots.receiving_state == RECEIVING_PIECES and snapshots.silences != 0:
        # Nobody gave the one we are at: is it the same, go on with this member; else its file is the better one.
        if not is_same_file(&snapshots.receiving.file, file):
            mark(MARK_OFFER_OF_BETTER_FILE)
            return _abandon(engine)
        snapshots.holder = link
        snapshots.asked = snapshots.received
        _ask(engine)
    elif snapshots.receiving_state != RECEIVING_ABANDONED:
        mark(MARK_OFFER_WHILE_RECEIVING)
        _note(engine, link)
    return OK


# In order only: what is missing is asked for again, from there on.
cdef status_t _on_piece(Engine* engine, const SnapshotMessage* message, const Slice* piece) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef DiskJob* job
    if (snapshots.receiving_state != RECEIVING_PIECES or message.offset != snapshots.received
            or not is_same_file(&snapshots.receiving.file, &message.file)):
        mark(MARK_PIECE_OUT_OF_ORDER)
        return OK
    job = disk_job_create(JOB_RECEIVE)
    if job == NULL:
        return NO_MEMORY
    job.records = piece[0]
    chunk_hold(piece.chunk)
    job.offset = message.offset
    snapshots.received += piece.length
    snapshots.asked = max(snapshots.asked, snapshots.received)
    snapshots.silences = 0
    snapshots.progress_tick = engine.ticks
    engine.counters.snapshot_bytes_received += piece.length
    return _submit(engine, job)


cdef status_t transfer_step(Engine* engine, uint32_t link, const SnapshotMessage* message,
                            const Slice* piece) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    if message.type == SNAPSHOT_OFFER:
        return _on_offer(engine, link, &message.file)
    if message.type == SNAPSHOT_FETCH:
        return _on_fetch(engine, link, message)
    if message.type == SNAPSHOT_PIECE:
        return _on_piece(engine, message, piece)
    if (snapshots.receiving_state == RECEIVING_PIECES and link == snapshots.holder
            and is_same_file(&snapshots.receiving.file, &message.file)):
        if snapshots.silences >= SILENCES_MAX:
            mark(MARK_NOBODY_HAS_THE_FILE)
            return _abandon(engine)
        _ask_another(engine)
    return OK


# --- jobs that are back -----------------------------------------------------------------------------------------------
cdef status_t _failed(Engine* engine, status_t status) noexcept nogil:
    engine.callers.event(engine.callers.self, EVENT_SNAPSHOT_FAILED, engine.snapshots.receiving.file.point.index,
                         status, 0)
    return status if is_fatal(status) else _abandon(engine)


cdef status_t _written(Engine* engine, status_t status, uint32_t length) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    if status != OK:
        mark(MARK_PIECE_NOT_WRITTEN)
        return _failed(engine, status)
    snapshots.written += length
    if snapshots.written < snapshots.receiving.file.size_bytes:
        _ask(engine)
        return OK
    mark(MARK_ALL_PIECES_THERE)
    snapshots.receiving_state = RECEIVING_LOADING
    return _submit(engine, disk_job_create(JOB_LOAD))


cdef status_t _loaded(Engine* engine, status_t status) noexcept nogil:
    if status != OK:
        return _failed(engine, status)
    if not engine.snapshots.receiving.is_done:
        return _submit(engine, disk_job_create(JOB_LOAD))
    engine.snapshots.receiving_state = RECEIVING_LOADED
    return OK


cdef status_t transfer_job_done(Engine* engine, DiskJob* job) noexcept nogil:
    cdef status_t status = job.status
    cdef uint8_t kind = job.kind
    cdef uint32_t length = job.records.length
    if kind == JOB_PIECE:
        return _piece_read(engine, job)
    if kind == JOB_CHECK:
        disk_job_destroy(job)
        return _checked(engine, status)
    engine.snapshots.jobs_open -= 1
    chunk_drop(job.records.chunk)
    disk_job_destroy(job)
    if kind == JOB_ABANDON:
        engine.snapshots.receiving_state = RECEIVING_NOTHING
        return status if is_fatal(status) else OK
    if engine.snapshots.receiving_state == RECEIVING_ABANDONED:
        return status if is_fatal(status) else _abandon(engine)
    return _written(engine, status, length) if kind == JOB_RECEIVE else _loaded(engine, status)


# --- time -------------------------------------------------------------------------------------------------------------
cdef status_t transfer_tick(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef uint64_t timeout_ticks = engine.config.core.election_timeout_ticks
    cdef status_t status = _watch_offers(engine)
    if status != OK or snapshots.receiving_state in (RECEIVING_NOTHING, RECEIVING_ABANDONED):
        return status
    if snapshots.receiving_state == RECEIVING_PIECES:
        if (engine.applying.applied >= snapshots.receiving.file.point.index or snapshots.silences >= SILENCES_MAX
                or buggify(BUGGIFY_FETCH_GIVEN_UP)):
            return _abandon(engine)
        # A slow disk is no silence: then nothing is asked for.
        if snapshots.jobs_open != 0:
            snapshots.progress_tick = engine.ticks
        elif engine.ticks - snapshots.progress_tick > timeout_ticks or buggify(BUGGIFY_FETCH_ELSEWHERE):
            _ask_another(engine)
    if engine.ticks - snapshots.noted_tick >= timeout_ticks:
        _note(engine, snapshots.holder)
    return OK
