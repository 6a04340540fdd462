# Records of an audit trail on their way: from the native threads that see a request to the thread that writes lines.
#
#     audit_push          a native thread; never waits, never allocates, makes a system call only to wake the writer
#     audit_front, _pop   the writer (security/audit_lines)
#
# Each native thread has a ring of its own, so two of them never meet. A record that has no room is dropped and counted.
# Ordinary records leave room for denied ones, and denied ones for those of administration. So a storm of reads pushes
# out neither. This module never looks into a request: server/audit and doors/zookeeper/audit describe them.
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.raft.types cimport NAME_BYTES_MAX
from raftmeta.status cimport status_t

cdef enum:
    TUNE_QUEUE_BYTES = 1 << 20              # of a ring; a power of two
    TUNE_KEPT_FOR_DENIED = 1 << 18          # bytes that ordinary records leave free
    TUNE_KEPT_FOR_ADMINISTRATION = 1 << 17  # bytes that denied records leave free
    TUNE_WAKE_BYTES = 1 << 18               # in a ring: the writer is woken out of its pause
    TUNE_REFUSALS_BURST = 100               # lines of refused connections and failed proofs at once
    TUNE_REFUSALS_PER_S = 10                # the same, for as long as one likes
    AUDIT_ITEMS_MAX = 32                    # operations of a transaction that are named; the others are counted
    AUDIT_ITEM_BYTES_MAX = 4096             # of all their keys
    AUDIT_RECORD_BYTES_MAX = 8192

# FORMAT_: their words stand in lines (security/audit_lines).
cdef enum AuditOperation:
    AUDIT_FILLER = 0                        # the end of the ring is empty: the next record stands at its beginning
    AUDIT_GET
    AUDIT_RANGE
    AUDIT_WATCH
    AUDIT_UNWATCH
    AUDIT_WATCH_ENDED                       # the right to it went
    AUDIT_LEASE_LIST
    AUDIT_STATUS
    AUDIT_MEMBERS
    AUDIT_MACHINE_READ
    AUDIT_PUT
    AUDIT_CREATE
    AUDIT_UPDATE
    AUDIT_DELETE
    AUDIT_DELETE_RANGE
    AUDIT_ADD
    AUDIT_TRANSACTION
    AUDIT_COMPARE
    AUDIT_FENCE
    AUDIT_LEASE_GRANT
    AUDIT_LEASE_REVOKE
    AUDIT_LEASE_KEEP_ALIVE
    AUDIT_SESSION_OPEN
    AUDIT_SESSION_CLOSE
    AUDIT_MACHINE_COMMAND
    AUDIT_GROUP_JOIN
    AUDIT_GROUP_SYNC
    AUDIT_GROUP_LEAVE
    AUDIT_GROUP_DELETE
    AUDIT_TOPIC_CREATE
    AUDIT_TOPIC_DELETE
    AUDIT_TOPIC_EXTEND
    AUDIT_TOPIC_CONFIGURE
    AUDIT_OFFSET_COMMIT
    AUDIT_OFFSET_DELETE
    AUDIT_RECORDS_APPEND
    AUDIT_RECORDS_DELETE
    AUDIT_COMMAND                           # a command that cannot be read
    AUDIT_COMPACT
    AUDIT_AUTH_ENABLE                       # to AUTH_TOKEN_REMOVE in the order of machine/rights_state RightsVerb
    AUDIT_AUTH_DISABLE
    AUDIT_AUTH_USER_PUT
    AUDIT_AUTH_USER_REMOVE
    AUDIT_AUTH_ROLE_PUT
    AUDIT_AUTH_ROLE_REMOVE
    AUDIT_AUTH_GRANT
    AUDIT_AUTH_REVOKE
    AUDIT_AUTH_BIND
    AUDIT_AUTH_UNBIND
    AUDIT_AUTH_FOUND
    AUDIT_AUTH_FOUND_AGAIN
    AUDIT_AUTH_CLAIM
    AUDIT_AUTH_TOKEN_PUT
    AUDIT_AUTH_TOKEN_REMOVE
    AUDIT_AUTH_SHOW
    AUDIT_MEMBER_CHANGE
    AUDIT_MEMBER_ADD                        # in the list of a MEMBER_CHANGE, as the next two
    AUDIT_MEMBER_REMOVE
    AUDIT_MEMBER_ROLE
    AUDIT_MEMBER_MEET
    AUDIT_TRANSFER
    AUDIT_SNAPSHOT
    AUDIT_SNAPSHOT_PIECE
    AUDIT_AUTHENTICATE
    AUDIT_CONNECTION
    AUDIT_PROCESS_END
    AUDIT_FLIGHT_RECORDER
    AUDIT_OPERATIONS

# How the principal was proved.
cdef enum AuditProof:
    AUDIT_PROOF_NONE = 0
    AUDIT_PROOF_PASSWORD
    AUDIT_PROOF_CERTIFICATE
    AUDIT_PROOF_TOKEN

# Whether a record is wanted, and which room it may take.
cdef enum AuditClass:
    AUDIT_READS = 0
    AUDIT_WRITES
    AUDIT_DENIED
    AUDIT_ADMINISTRATION

cdef enum AuditPort:
    AUDIT_PORT_CLIENTS = 0
    AUDIT_PORT_LOCAL                        # the Unix socket
    AUDIT_PORT_PEERS
    AUDIT_PORT_ZOOKEEPER
    AUDIT_PORT_KAFKA
    AUDIT_PORT_ETCD

# The native threads that push; each has the ring of this number.
cdef enum AuditProducer:
    AUDIT_BY_CLIENTS = 0
    AUDIT_BY_LOOP = 1
    AUDIT_BY_DOORS = 2                      # the ZooKeeper door
    AUDIT_BY_KAFKA = 3                      # the Kafka door
    AUDIT_BY_ETCD = 4                       # the etcd door
    AUDIT_PRODUCERS = 5

cdef enum AuditFamily:
    AUDIT_ADDRESS_NONE = 0
    AUDIT_ADDRESS_UNIX
    AUDIT_ADDRESS_4
    AUDIT_ADDRESS_6

cdef struct AuditAddress:
    uint8_t family                          # AuditFamily
    uint16_t port
    uint8_t[16] bytes

# The field that an item's bytes stand in.
cdef enum AuditLabel:
    AUDIT_LABEL_KEY = 0                     # first: a key, or the start of a range; second: the end of the range
    AUDIT_LABEL_FENCE                       # a key
    AUDIT_LABEL_NAME                        # first: a name; second: an address
    AUDIT_LABEL_ROLE
    AUDIT_LABEL_MACHINE
    AUDIT_LABEL_LEASE                       # number
    AUDIT_LABEL_REVISION                    # number
    AUDIT_LABEL_PROCESS                     # number: its member; first: its boot number, 8 bytes

# An item of a record; then its two texts.
cdef struct AuditItem:
    uint64_t number
    uint16_t first_length
    uint16_t second_length
    uint8_t operation                       # AuditOperation, in the list of a transaction
    uint8_t label                           # AuditLabel
    uint8_t rights                          # of a grant, machine/rights_state Right
    uint8_t has_second                      # it may be empty: to the last key

# A record; then principal, name in the certificate, items.
cdef struct AuditRecord:
    uint32_t size                           # with all that follows, a multiple of 8
    uint8_t operation                       # AuditOperation
    uint8_t proof                           # AuditProof
    uint8_t port                            # AuditPort
    uint8_t kind                           # AuditClass, as far as the request says
    uint8_t is_quiet                        # only told if it was not done
    uint8_t principal_length
    uint8_t certificate_length
    uint8_t is_listed                       # its items stand in a list
    uint16_t item_count                     # that follow
    uint16_t padding
    uint32_t item_total                     # that there were
    status_t status
    uint64_t wall_ms
    uint64_t revision
    uint64_t index
    AuditAddress address

cdef struct AuditQueue:
    uint8_t* bytes
    uint64_t tail                           # shared; producer's
    uint64_t head                           # shared; writer's
    uint64_t promised                       # producer's own: bytes kept for requests under way
    uint64_t[4] dropped                     # shared; producer's; by AuditClass
    uint64_t suppressed                     # shared; producer's: refusals beyond their rate
    uint64_t pushed                         # shared; producer's
    uint64_t tokens_ns                      # producer's own: when refusals were let through, on the clock of the rate

cdef struct AuditTrail:
    AuditQueue[AUDIT_PRODUCERS] queues
    bint reads                              # settings
    bint writes
    bint is_required                        # what must be recorded and cannot be is refused
    uint32_t is_failing                     # shared; the writer's last write failed
    uint32_t bell                           # counts; the writer sleeps on it
    uint32_t sleep                          # shared; AuditSleep

cdef enum AuditSleep:
    AUDIT_AWAKE = 0
    AUDIT_IDLE = 1                          # any record wakes it
    AUDIT_PAUSING = 2                       # much wakes it

cdef AuditTrail* audit_create() noexcept nogil              # NULL: no memory
cdef void audit_destroy(AuditTrail* trail) noexcept nogil
# Who is at the other end of the socket.
cdef void audit_address_of(int fd, AuditAddress* address) noexcept nogil

# --- a native thread, into its own ring -------------------------------------------------------------------------------
# Whether settings want such a record.
cdef bint audit_wants(const AuditTrail* trail, AuditClass kind) noexcept nogil
# Keep room for a record of `size` bytes until audit_release, which comes just before its audit_push. False: there is
# none beside all that was promised before.
cdef bint audit_promise(AuditTrail* trail, AuditProducer who, uint32_t size, AuditClass kind) noexcept nogil
cdef void audit_release(AuditTrail* trail, AuditProducer who, uint32_t size) noexcept nogil
# record.size bytes, kind as now known; was_promised: room was kept for it. False: it was dropped, and is counted.
cdef bint audit_push(AuditTrail* trail, AuditProducer who, const AuditRecord* record, AuditClass kind,
                     bint was_promised) noexcept nogil
# Whether one more refusal may be told now; else it is counted.
cdef bint audit_admits(AuditTrail* trail, AuditProducer who, uint64_t now_ns) noexcept nogil
# A connection that was not let in. status: of raftmeta/status or a TlsRefusal.
cdef void audit_push_refusal(AuditTrail* trail, AuditProducer who, AuditPort port, const AuditAddress* address,
                             status_t status, uint64_t now_ns) noexcept nogil

# --- the writer -------------------------------------------------------------------------------------------------------
# The oldest record of a ring; NULL: none.
cdef const AuditRecord* audit_front(AuditTrail* trail, AuditProducer who) noexcept nogil
cdef void audit_pop(AuditTrail* trail, AuditProducer who, const AuditRecord* record) noexcept nogil
cdef uint64_t audit_dropped(const AuditTrail* trail, AuditClass kind) noexcept nogil
cdef uint64_t audit_suppressed(const AuditTrail* trail) noexcept nogil
cdef uint64_t audit_pushed(const AuditTrail* trail) noexcept nogil
# Sleep until there is a record, audit_wake was called, or timeout_ns have passed. is_pause: until there are many.
cdef void audit_await(AuditTrail* trail, uint64_t timeout_ns, bint is_pause) noexcept nogil
cdef void audit_wake(AuditTrail* trail) noexcept nogil
