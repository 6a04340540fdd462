# Words and shapes of the protocol: entries as records, messages, hard state, membership.
#
# A record is the one form of an entry everywhere. The core's arena, an APPEND and the log file hold the same bytes,
# which
# the leader makes once and nobody changes (docs/formats.md "Record"). So an entry is never encoded or copied again
# between a socket, the log and the disk.
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice

ctypedef uint64_t index_t       # of an entry; the first is 1
ctypedef uint64_t term_t
ctypedef uint64_t member_id_t   # an incarnation: random, born with its folder, never 0; a wiped disk is another member

cdef enum:
    FORMAT_RECORD_VERSION = 1
    FORMAT_RECORD_ALIGNMENT = 8     # bytes; header and payload, padded with zeros
    MEMBERS_MAX = 32                # a set of members is a bit mask (member_mask_t) over positions in Membership
    NAME_BYTES_MAX = 64
    ADDRESS_BYTES_MAX = 255

ctypedef uint32_t member_mask_t

cdef enum EntryType:
    ENTRY_NOOP = 1              # first entry of a leader's term (paper 8, thesis 6.4)
    ENTRY_COMMAND = 2           # payload: a command envelope of wire/commands
    ENTRY_MEMBERSHIP = 3        # payload: a Membership as raft/membership encodes it

# 64 bytes, little-endian, then `length` payload bytes, then zeros up to a multiple of 8.
cdef packed struct Record:
    uint32_t crc                # crc32c over bytes [4, 64 + length)
    uint32_t length             # payload bytes
    index_t index
    term_t term
    uint64_t chain              # chain_hash(chain of index - 1, this record); see raft/log
    uint64_t wall_ms            # leader's advisory wall time, milliseconds since 1970, non-decreasing in the log
    uint64_t lease_ms           # lease clock at append, ms, never falls in the log (decisions/README.md "Leases")
    uint64_t reserved
    uint32_t group              # 0; several groups on one stream come later
    uint8_t type                # EntryType
    uint8_t version             # FORMAT_RECORD_VERSION
    uint16_t flags              # 0

# The state that must be on disk before a promise of its term leaves the node (paper Figure 2 "persistent state").
cdef struct HardState:
    term_t term
    member_id_t vote            # 0: none in this term
    index_t committed           # a hint: clamped to the log at open, never trusted alone

# A snapshot replaces the log up to this point: the entry at `index` and all before it.
cdef struct SnapshotPoint:
    index_t index
    term_t term
    uint64_t chain

cdef enum MemberRole:
    # Bits; joint consensus is the time in which INCOMING and OUTGOING differ (paper 6, thesis 4.3).
    VOTER_INCOMING = 1          # votes in the new electorate (outside a change: the only one)
    VOTER_OUTGOING = 2          # votes in the old electorate of a change under way
    LEARNER = 4                 # receives entries, does not vote (thesis 4.2.1)
    LEARNER_NEXT = 8            # votes in OUTGOING now, becomes LEARNER when the change is left
    STANDBY = 16                # beside LEARNER or LEARNER_NEXT: the leader does not promote it, caught up or not

cdef struct Member:
    member_id_t id
    uint8_t roles               # MemberRole bits
    uint8_t name_length
    uint8_t address_length
    uint8_t[NAME_BYTES_MAX] name            # unique, except that two incarnations of a node may stand side by side
    uint8_t[ADDRESS_BYTES_MAX] address      # "host:port"

# The membership in force is the last in the log, committed or not (thesis 4.1).
cdef struct Membership:
    uint8_t count
    uint8_t is_joint
    index_t index               # of the entry that carries it; 0: the founding one
    Member[MEMBERS_MAX] members

# A message uses type, source, target, reject, flags and the fields named here; all others are 0. `term` is the sender's
# term. It is 0 in the types marked "no term": they promise nothing, and an answer to them names only their context.
# Responses of a member also carry free_bytes. (4, 14: index is durable when they leave.)
cdef enum MessageType:
    APPEND = 1                  # leader -> member: count records after (index, log_term), commit
    APPEND_RESPONSE = 2         # index = match; reject: index = refused previous index, (hint, log_term) = look there
    HEARTBEAT = 3               # leader -> member: commit clamped to the match, context = round (0: no answer wanted),
                                # lease_ms = what the lease clock shows once a quorum has answered (no round: 0)
    HEARTBEAT_RESPONSE = 4      # context = round; reject: send an APPEND, I do not know how far my log equals yours
    PRE_VOTE = 5                # thesis 9.6; term = the term of its campaign; (index, log_term) = its last entry
    PRE_VOTE_RESPONSE = 6       # granted: term of the request; reject: the responder's own term
    VOTE = 7                    # (index, log_term) = its last entry
    VOTE_RESPONSE = 8           # granted: lease_ms = lease clock as told by the leader of the candidate's log term
    PROPOSE = 9                 # member -> leader, no term: `count` payloads, each u32 length + bytes; context: batch
    PROPOSE_RESPONSE = 10       # no term; reject only: context, hint = status; an accepted batch shows in the log
    READ_INDEX = 11             # member -> leader, no term: context
    READ_INDEX_RESPONSE = 12    # index = read index for context, committed in this term; reject: ask again
    SNAPSHOT = 13               # leader -> member: you need the snapshot at (index, log_term); its pieces travel beside
    SNAPSHOT_RESPONSE = 14      # installed: index = its point; reject: failed
    TRANSFER = 15               # member -> leader: hand over to `context` (member; 0: the most advanced)
    TIMEOUT_NOW = 16            # thesis 3.10
    ENTRY_REQUEST = 17          # any -> any, no term: send me the record at index whose chain hash is context (repair)
    ENTRY_RESPONSE = 18         # no term; index and context of the request, count = 1 record; reject: I do not have it
    MEMBERSHIP_PROPOSE = 19     # member -> leader, no term: records = an encoded membership made from the one of entry
                                # `index`; context as in PROPOSE
    FEED_REQUEST = 20           # observer -> feeder, no term: my log ends with (index, log_term), whose chain hash is
                                # context; send what is committed behind it. hint = number of this request
    FEED = 21                   # feeder -> observer: count committed records after (index, log_term), commit, context =
                                # the leader of this term (0: not known), hint = number of the request; flags: FEED_*
    FEED_MEMBERSHIP = 22        # feeder -> observer that knows none, no term: records = the encoded membership of entry
                                # `index`, committed and at or below the end of its log; hint = number of the request

cdef struct Message:
    uint8_t type                # MessageType
    uint8_t reject              # boolean
    uint8_t flags               # MESSAGE_* bits
    member_id_t source
    member_id_t target
    term_t term
    index_t index
    term_t log_term
    index_t commit
    index_t hint
    uint64_t context
    uint64_t free_bytes         # responses of a member: room left in its log; UINT64_MAX when not limited
    uint64_t lease_ms           # lease clock; 0: not known
    uint32_t count              # records or payloads in `records`
    Slice records

cdef enum:
    MESSAGE_TRANSFER = 1        # VOTE / PRE_VOTE: campaign of a transfer; a voter answers it although it hears a leader
    MESSAGE_WAITING = 2         # PROPOSE, APPEND_RESPONSE: callers wait here; send the commit index at once
    MESSAGE_URGENT = 8          # PROPOSE: keep-alives, fences, deletes, membership changes (is_urgent)
    MESSAGE_REPAIRING = 4       # responses: this member's log is damaged; it does not count for elections

# Flag of FEED_REQUEST: this observer's log names no membership, and that of the founding stands in no log.
cdef enum:
    FEED_NEEDS_MEMBERSHIP = 1

# Flags of FEED: below FEED_DEPTH_SHIFT why it is a reject, above that the depth of the feeder (0: a member).
cdef enum:
    FEED_FULL = 1               # this feeder has no place for one more observer
    FEED_CUT_OFF = 2            # it has no source of its own at the moment, or its log is damaged
    FEED_BEHIND = 3             # it knows less to be committed than the observer has
    FEED_SNAPSHOT = 4           # its log does not reach back so far: a snapshot is offered
    FEED_OTHER_HISTORY = 5      # it has another committed entry at index
    FEED_REASONS = 15
    FEED_DEPTH_SHIFT = 4
