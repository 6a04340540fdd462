# The result of a native function: 0 is OK, everything else says what happened. Native code never raises (ARCHITECTURE
# "Native code"); face/ turns a status into the error of raftmeta/errors.py that tells the operation's fate.
#
# FORMAT_: statuses 1..63 stand in replicated results and in client frames and may never be renumbered.

ctypedef int status_t

cdef enum:
    OK = 0

    # Refused: the command was applied and its result is "no" (errors.Refused); 1..31
    KEY_EXISTS = 1
    KEY_MISSING = 2
    COMPARE_FAILED = 3
    FENCED = 4
    ID_CONFLICT = 5
    LEASE_EXPIRED = 6           # or never granted
    COMPACTED = 7
    FUTURE_REVISION = 8
    TOO_MANY_CHANGES = 9        # one entry may change at most CHANGES_MAX keys
    VALUE_TOO_LARGE = 10
    KEY_INVALID = 11            # empty or longer than KEY_BYTES_MAX
    COMMAND_INVALID = 12        # well-formed msgpack, but not a command of this feature level
    NUMBER_OVERFLOW = 13               # add(): the counter would leave the signed 64-bit range
    NOT_A_NUMBER = 14           # add(): the value is not a counter
    SESSION_UNKNOWN = 15        # never opened, closed or expired: nothing was applied
    RESULT_EVICTED = 16         # applied earlier; its result is no longer kept (errors.OutcomeUnknown)
    TOO_MANY_MACHINES = 17      # user machines of the cluster
    NO_QUORUM = 18              # membership: the voters that answer would be no majority of the new electorate
    NAME_UNKNOWN = 19           # rights: there is no such user or role
    RIGHTS_LIMIT = 20           # rights: as many users, roles or grants as there may be
    ZNODE_WRITE = 21            # the key is a znode: only requests for znodes change it
    ZNODE_REFUSED = 22          # an operation of a request for znodes; the detail has its position and ZooKeeper's code
    GROUP_WRITE = 23            # the key is of a worker group: only requests for groups change it
    GROUP_REFUSED = 24          # a request for a worker group; the detail is Kafka's code
    RECORDS_WRITE = 26          # the key is of a record log: only requests for record logs change it

    # NotExecuted: certainly not applied; 32..47
    NO_LEADER = 32
    NOT_READY = 33
    OVERLOADED = 34
    NO_SPACE = 35
    NODE_CLOSED = 36
    WITHDRAWN = 37              # timed out before it was proposed
    PERMISSION_DENIED = 38      # the principal has no right to it
    AUTHENTICATION_FAILED = 39  # no principal, an unknown one, or one whose credentials have changed since
    QUOTA_EXCEEDED = 40         # the principal uses as much of this node as it may
    OUT_OF_ORDER = 41           # the command that must come before it was not applied yet

    # 48..63: fate not known
    OUTCOME_UNKNOWN = 48

    # Input from outside that is refused before it has any effect; 64..95
    INCOMPLETE = 64             # more bytes are needed; nothing wrong so far
    BAD_MAGIC = 65
    BAD_VERSION = 66
    BAD_CHECKSUM = 67
    BAD_LENGTH = 68
    BAD_FIELD = 69
    FOREIGN_CLUSTER = 70
    FOREIGN_NODE = 71
    OLD_BOOT = 72               # a lower boot number than one already seen
    NOT_FOUND = 73
    ALREADY = 74                # the request is under way or done already
    CORRUPT = 75                # storage: bytes that were synced do not match what was written
    IN_USE = 76                 # folder: another process holds it
    NEWER_FORMAT = 77
    STALE = 78                  # a message or completion of the past: ignored
    REMOVED = 79                # HELLO: a membership later than this peer's last one does not name the peer any more
    NO_KEY = 80                 # storage: a file is encrypted with a key that was not given

    # Fatal: the node stops and keeps its files; 96..
    NO_MEMORY = 96
    DISK_FAILED = 97            # a write or sync failed; never retried (docs/decisions/log.md D5)
    INVARIANT_BROKEN = 98       # see broken() in raft/state.pxd
    UNKNOWN_ENTRY = 99          # an entry type or command above the feature level reached apply
    POWER_CUT = 100             # simulated disks only: this node is off
    STATE_DIVERGED = 101        # the same entries led to another state here than on a majority (engine/divergence)
    HISTORY_LOST = 102          # a voter's disk, this one or another, is older than what the voter acknowledged


# Must the node stop, keep its files, and tell this status?
cdef inline bint is_fatal(status_t status) noexcept nogil:
    return status >= NO_MEMORY
