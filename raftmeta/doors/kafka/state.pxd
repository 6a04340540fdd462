# The structs of the Kafka door: connections, their requests, and what handles a request.
#
# They belong to one native thread. Other threads touch only the end of KafkaDoor, and what the Desk names.
from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.connections.accounts_state cimport Account
from raftmeta.connections.state cimport Connection, ConnectionCounters
from raftmeta.doors.desk.state cimport Desk, DeskTask
from raftmeta.doors.kafka.codec cimport KafkaReader
from raftmeta.doors.kafka.own_state cimport OwnLogs
from raftmeta.native.containers cimport Map64, Vec
from raftmeta.native.threads cimport Published
from raftmeta.wire.commands cimport PRINCIPAL_BYTES_MAX, Bytes

cdef enum:
    KAFKA_FRAME_BYTES_MAX = 6 * 1024 * 1024     # one command of the log: what is larger could not be kept
    KAFKA_FIRST_FRAME_BYTES_MAX = 64 * 1024     # of a connection that has proved nothing yet
    TUNE_REQUESTS_MAX = 1024        # of one connection under way; then it is not read on
    TUNE_REQUEST_BYTES = 8 << 20    # bytes of them
    TUNE_OUT_BYTES = 1 << 20        # waiting to be sent: a connection with more is not answered
    HOST_BYTES_MAX = 255
    NONCE_BYTES = 24                # of this node, in SCRAM
    KAFKA_FAILURE_SLOTS = 1024
    TASK_REQUEST = 16               # DeskTask.kind: of a request; TASK_OF_DOOR
    TASK_KEEP = 17                  # ... a word that keeps leases alive
    TASK_BROKER = 18                # ... a step of making its own broker known (brokers.pyx)
    TASK_DROP = 19                  # ... the log of a topic that is gone is dropped (records_sweep.pyx)

cdef struct KafkaLimits:
    uint32_t session_min_ms         # of members of groups
    uint32_t session_max_ms
    uint32_t initial_delay_ms       # of the first generation of a group
    uint32_t consumer_session_ms    # of members whose assignments the log decides (KIP-848), and how often they beat
    uint32_t consumer_beat_ms
    uint32_t members_max            # of a group
    bint needs_rights
    uint64_t value_bytes_max

cdef enum KafkaTraits:
    KAFKA_BEFORE_PROOF = 1          # answered before its client has proved who it is, and without a cluster
    KAFKA_TOGETHER = 2              # begun while those before it are not answered yet, if they are such too
    KAFKA_OWN = 4                   # the host is asked: asks of the request are given up with it (own_asks)

# The functions that handle one kind of request. A handler begins in `begin`, and ends when it has made the answer
# (reply.pxd). Until then `go` is called in each turn, and `answered` for each ticket of the request that comes back.
cdef struct KafkaHandler:
    int16_t key
    int16_t first                   # versions
    int16_t last
    int16_t flexible                # the first such version
    uint8_t traits                  # KafkaTraits
    uint8_t operation               # AuditOperation; AUDIT_FILLER: nobody wants to know
    void (*begin)(KafkaDoor* door, KafkaRequest* request) noexcept nogil
    void (*go)(KafkaDoor* door, KafkaRequest* request) noexcept nogil           # NULL: there is nothing to look at
    # The caller frees the task. The ticket's status and body are the answer.
    void (*answered)(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil    # NULL: as is

# A request of a client. Its frame follows the struct.
cdef struct KafkaRequest:
    KafkaRequest* next              # of its connection, in order of arrival
    const KafkaHandler* handler
    KafkaConnection* connection     # NULL: it has closed; the answer is thrown away
    Account* account                # that its bytes are counted in; held
    int16_t key
    int16_t version
    int32_t correlation
    Bytes client                    # the client's name, in the frame
    KafkaReader body                # at the first field; a copy of it reads the request anew
    uint32_t frame_length
    uint32_t tasks                  # whose tickets are out
    uint64_t begun_ns
    uint8_t operation               # AuditOperation; the handler's, if it does not say otherwise
    uint8_t is_begun
    uint8_t is_done                 # `answer` is whole
    uint8_t is_denied               # for rights, which the audit trail is told
    int16_t error                   # of the answer, for the audit trail
    uint32_t name_count             # keys that the answer is about, for the audit trail
    Vec[uint8_t] names              # the first ones, each behind its length in two bytes
    # Of its handler:
    uint8_t step
    uint8_t flags
    int16_t code
    uint64_t round                  # read round that it waits for
    uint64_t revision
    uint64_t number
    uint64_t deadline_ns
    Vec[uint8_t] texts              # what it keeps
    Vec[uint8_t] answer             # the frame, with its length

# A command of a request. `part` says which one, for its handler.
cdef struct KafkaTask:
    DeskTask base                   # first
    KafkaRequest* request           # NULL: the door's own
    uint32_t part

# How far SASL is on a connection.
cdef enum KafkaSaslStep:
    SASL_NONE = 0
    SASL_PLAIN = 1                  # a mechanism was chosen
    SASL_SCRAM = 2
    SASL_SCRAM_ASKED = 3            # the salt was told
    SASL_PROVED = 4

cdef struct KafkaSasl:
    uint8_t step                    # KafkaSaslStep
    Vec[uint8_t] nonce              # both
    Vec[uint8_t] said               # AuthMessage of RFC 5802, so far
    uint8_t name_length
    uint8_t[PRINCIPAL_BYTES_MAX] name
    bint is_user                    # with a password
    uint64_t rights_since           # rights' revision under which the secret was looked up
    uint8_t[16] salt
    uint32_t iterations
    uint8_t[32] stored_key
    uint8_t[32] server_key

# Failed proofs of the names that share this slot; they leak away.
cdef struct KafkaFailures:
    uint64_t since_ns
    uint32_t count

cdef struct KafkaConnection:
    Connection base                 # first; it is unbound until it has proved a user, or need not
    KafkaRequest* first             # requests, in order of arrival
    KafkaRequest* last
    KafkaRequest* unbegun           # the first that has not begun
    uint32_t request_count
    uint64_t request_bytes
    uint8_t name_length             # of the user that was proved; 0: none
    uint8_t[PRINCIPAL_BYTES_MAX] name
    bint is_certified               # by a certificate
    uint64_t rights_since           # TableUser.since of the proof
    KafkaSasl sasl

cdef struct KafkaCounters:
    ConnectionCounters base
    uint64_t requests
    uint64_t unsupported            # requests and versions that the door does not know
    uint64_t joins
    uint64_t heartbeats
    uint64_t authenticated
    uint64_t unauthenticated
    uint64_t waiting                # requests that wait for a change of the state
    uint64_t memory

# A broker as clients are told it.
cdef struct KafkaBroker:
    int32_t id
    int32_t port
    uint8_t host_length
    uint8_t[HOST_BYTES_MAX] host

cdef struct KafkaDoor:
    Desk desk                       # first
    KafkaLimits limits
    KafkaConnection* connections    # those of desk.base
    KafkaBroker self                # this node
    Vec[KafkaBroker] brokers        # scratch
    # The lease of this node's broker.
    uint64_t broker_lease
    uint8_t broker_step
    uint64_t broker_ns              # when it was looked at last
    # Leases to be kept alive with the next word.
    Map64[uint8_t] kept
    uint64_t keep_ns                # when the next one is due
    uint32_t keeps                  # such words under way
    bint is_serving                 # commands and reads can be asked
    bint is_lonely                  # no leader for so long that clients are sent elsewhere
    uint64_t rights_revision        # that the connections were looked at under
    uint8_t[32] disguise            # makes up salts before the cluster has a seed
    KafkaFailures[KAFKA_FAILURE_SLOTS] failures
    Vec[Bytes] pairs                # scratch
    Vec[uint8_t] request            # scratch
    KafkaCounters counters
    # Shared:
    Published[KafkaCounters] published
    # Record logs of topics that are gone; the thread's own again.
    uint64_t swept_ns               # when they were looked for last
    uint32_t drops                  # commands under way
    Vec[uint8_t] swept              # the key to go on with; empty: the first
    OwnLogs* own                    # the host keeps the records of topics; NULL: raftmeta does
    # Names of topics by their ids (topic_state.pyx).
    Map64[uint32_t] topic_places    # of a length and a name in topic_names, by the first half of the id
    Vec[uint8_t] topic_names
    uint64_t topics_seen            # revision of the state whose topics they are
