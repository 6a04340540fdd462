# Buggify points: places where production code may as well do the rare thing. In simulation it often does
# (FoundationDB's
# BUGGIFY; Zhou et al., "FoundationDB: A Distributed Unbundled Transactional Key Value Store", 4.2).
#
# Every point does something legal: a smaller batch, a later turn, a question asked twice. Another machine, another load
# or another moment would do the same, so no invariant may break by it and no answer may differ.
# A point never skips a check, forgets a promise, or changes what all nodes must do alike.
# In production a point costs one load and one branch that is never taken, since nobody decides there.
# To add one, write a line here and `buggify(BUGGIFY_...)` at the place; tapes know a point by name.
cdef enum Buggify:
    # elections
    BUGGIFY_ELECTION_WITHOUT_JITTER = 0  # the shortest time-out: votes are split (paper 5.2)
    BUGGIFY_PRE_VOTE_GIVEN_UP            # a member that asks for pre-votes no longer waits for answers
    BUGGIFY_TRANSFER_GIVEN_UP            # a leader takes its office back before the time-out of a transfer
    # replication
    BUGGIFY_HEARTBEAT_EXTRA              # a round of heartbeats that is not due
    BUGGIFY_APPEND_OF_ONE                # an APPEND of a single record
    BUGGIFY_WINDOW_OF_ONE                # nothing is sent ahead of an answer
    BUGGIFY_APPENDS_AGAIN                # APPENDs under way are taken for lost
    BUGGIFY_HINT_IGNORED                 # a refused probe steps back by one entry (paper 5.3)
    BUGGIFY_SNAPSHOT_INSTEAD             # a snapshot for a member that the log could serve
    BUGGIFY_MEMORY_DROPPED               # applied records leave memory: readers need the log's files
    BUGGIFY_LOG_READ_OF_ONE              # a read of the log's files ends after one record
    # links
    BUGGIFY_LINK_DROPPED                 # a connection ends right after its HELLO
    # callers
    BUGGIFY_BATCH_OF_ONE                 # commands are proposed one by one
    BUGGIFY_PROPOSED_AGAIN               # a forwarded command is proposed once more
    BUGGIFY_READS_POSTPONED              # reads wait for a later turn
    BUGGIFY_READS_ASKED_AGAIN            # a read round is asked for once more, under a new context
    # apply
    BUGGIFY_APPLY_POSTPONED              # committed entries wait for a later turn
    BUGGIFY_APPLY_OF_ONE                 # a slice of one entry
    # watches
    BUGGIFY_WATCH_FULL                   # a queue that is not empty counts as full
    BUGGIFY_WATCH_REPLAY_OF_ONE          # a late watcher is replayed change by change
    # snapshots
    BUGGIFY_DUMP_OF_ONE                  # a dump is prepared record by record
    BUGGIFY_LOG_CUT_EARLY                # the log goes up to the newest copy, not to the one before
    BUGGIFY_PIECE_SMALL                  # a quarter of a piece is asked for
    BUGGIFY_FILE_DENIED                  # the holder of a file says that it is gone
    BUGGIFY_FETCH_ELSEWHERE              # the next piece is asked of another member
    BUGGIFY_FETCH_GIVEN_UP               # a transfer ends in its middle
    BUGGIFY_INSTALL_POSTPONED            # a received state waits for a later turn
    # a node's own work
    BUGGIFY_KEEP_ALIVE_EXTRA             # a keep-alive that is not due
    BUGGIFY_EXPIRY_POSTPONED             # leases and sessions that are due end later
    BUGGIFY_HISTORY_CUT_EARLY            # half of the history goes, though there is room
    # the log on disk
    BUGGIFY_SEGMENT_ROLLED_EARLY         # a batch begins a segment, though the last one has room
    BUGGIFY_MARK_SYNCED_EARLY            # the mark is synced with a batch that does not need it
    BUGGIFY_LOG_LEFT_ON_DISK             # at a start no committed record stays in memory: apply reads the files
    BUGGIFY_POINTS                       # how many there are

cdef extern from "buggify.hpp" namespace "raftmeta" nogil:
    bint buggify(Buggify which) noexcept
    # For the simulator: from now on every point on the calling thread asks `decide`.
    void buggify_install(bint (*decide)(unsigned) noexcept nogil) noexcept
    void*& buggify_owner() noexcept
