# Buggify points: places where production code may as well do the rare thing, and in simulation often does
# (FoundationDB's BUGGIFY; Zhou et al., "FoundationDB: A Distributed Unbundled Transactional Key Value Store", 4.2).
#
# What fires there is always legal: a smaller batch, a later turn, a question asked twice. It is what another machine,
# another load or another moment would have brought, so no invariant may fall by it and no answer may be another one.
# What a point never does: skip a check, forget what was promised, or change what all nodes must do alike.
# What it costs in production: one load and one branch that is never taken, since nobody decides there.
# A point is added by a line here and by `buggify(BUGGIFY_...)` where the rare thing may be done; tapes know it by name.
cpdef enum Buggify:
    # elections
    BUGGIFY_ELECTION_WITHOUT_JITTER = 0  # the shortest time-out: votes are split (paper 5.2)
    BUGGIFY_PRE_VOTE_GIVEN_UP            # who asks whether it could win no longer waits for answers
    BUGGIFY_TRANSFER_GIVEN_UP            # a leader takes its office back before the time-out of a transfer
    # replication
    BUGGIFY_HEARTBEAT_EXTRA              # a round of heartbeats that is not due
    BUGGIFY_APPEND_OF_ONE                # an APPEND of a single record
    BUGGIFY_WINDOW_OF_ONE                # nothing is sent ahead of an answer
    BUGGIFY_APPENDS_AGAIN                # what was sent ahead is taken for lost
    BUGGIFY_HINT_IGNORED                 # a refused probe steps back by one entry (paper 5.3)
    BUGGIFY_SNAPSHOT_INSTEAD             # a snapshot for a member that the log could serve
    BUGGIFY_MEMORY_DROPPED               # applied records leave memory: who needs them reads the log's files
    BUGGIFY_LOG_READ_OF_ONE              # a read of the log's files ends after one record
    # links
    BUGGIFY_LINK_DROPPED                 # a connection ends right after its HELLO
    # callers
    BUGGIFY_BATCH_OF_ONE                 # commands are proposed one by one
    BUGGIFY_PROPOSED_AGAIN               # what was forwarded is proposed once more
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
    BUGGIFY_FILE_DENIED                  # who has the file says that it is gone
    BUGGIFY_FETCH_ELSEWHERE              # the next piece is asked of another member
    BUGGIFY_FETCH_GIVEN_UP               # a transfer ends in its middle
    BUGGIFY_INSTALL_POSTPONED            # a received state waits for a later turn
    # what a node does for itself
    BUGGIFY_KEEP_ALIVE_EXTRA             # a keep-alive that is not due
    BUGGIFY_EXPIRY_POSTPONED             # leases and sessions that are due end later
    BUGGIFY_HISTORY_CUT_EARLY            # half of the history goes, though there is room
    # the log on disk
    BUGGIFY_SEGMENT_ROLLED_EARLY         # a batch begins a segment, though the last one has room
    BUGGIFY_MARK_SYNCED_EARLY            # the mark is synced with a batch that does not need it
    BUGGIFY_LOG_LEFT_ON_DISK             # at a start no committed record stays in memory: what is to be applied is read
    BUGGIFY_POINTS                       # how many there are

cdef extern from "buggify.hpp" namespace "raftmeta" nogil:
    bint buggify(Buggify which) noexcept
    # For the simulator: from now on decide is asked at each point, on the thread that is there.
    void buggify_install(bint (*decide)(unsigned) noexcept nogil) noexcept
    void*& buggify_owner() noexcept
