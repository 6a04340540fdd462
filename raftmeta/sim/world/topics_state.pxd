# A world with topics keeps these beside its nodes: what the committed log made of topics, offsets and record logs by
# the rules of docs/kafka-topics.md and docs/kafka-records.md, and the clients that ask for them.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.sim.world.groups_state cimport SIM_GROUP_KEYS, SimGroupView
from raftmeta.wire.topics cimport OFFSET_METADATA_BYTES_MAX, TopicsRequest

cdef enum:
    SIM_TOPICS = 3
    SIM_PARTITIONS = 4          # of one topic, at most
    SIM_LOGS = 4                # log i is fenced by topic i modulo SIM_TOPICS
    SIM_RECORD_KEYS = 6         # of one log
    SIM_PRODUCERS = 4           # each client is one
    SIM_PRODUCER_BATCHES = 5    # that a repetition is found among
    SIM_TOPIC_CLIENTS = 4
    SIM_TOPIC_ITEMS = 3         # of one request, at most
    SIM_TEXT_MAX = 8

# A name with room for it.
cdef struct SimText:
    uint8_t[SIM_TEXT_MAX] bytes
    uint32_t length

cdef struct SimTopic:
    bint exists
    uint64_t id                 # the first half of its id; the second one is zero
    int64_t partitions
    uint64_t fence              # revision that made it

cdef struct SimOffset:
    bint exists
    uint64_t topic              # id of the topic when it was committed
    int64_t offset
    int32_t epoch
    uint32_t metadata_length

cdef struct SimOffsets:
    SimOffset[SIM_TOPICS][SIM_PARTITIONS] offsets
    bint has_head               # something was committed since the group was made
    uint64_t retention_ms       # that the last commit named
    uint64_t deadline_ms        # of the lease clock; 0: the offsets do not end

# A record of a batch, or a whole opaque batch. Batches of the same log differ by `last`.
cdef struct SimRecord:
    uint64_t offset
    uint64_t base               # of its batch
    uint64_t last               # ...
    uint64_t appended_ms        # ...
    uint64_t value              # 0: a tombstone, or an opaque batch
    uint32_t bytes              # of its own
    uint8_t key                 # 0: none
    bint is_keyed               # its batch was appended to a compacted log, and can be looked into
    bint is_opaque

cdef struct SimProducerBatch:
    uint64_t base
    int64_t first_sequence
    int64_t last_sequence

cdef struct SimProducer:
    bint exists
    int32_t epoch
    uint32_t count
    SimProducerBatch[SIM_PRODUCER_BATCHES] batches      # the newest last

cdef struct SimLog:
    bint exists
    uint64_t start
    uint64_t next
    Vec[SimRecord] records      # in order of offsets
    SimProducer[SIM_PRODUCERS] producers

cdef enum SimTopicWish:
    TOPIC_OPENS = 1
    TOPIC_PRODUCES
    TOPIC_ASKS                  # anything else

cdef struct SimTopicClient:
    uint64_t session            # 0: none
    uint64_t sequence
    Vec[uint8_t] payload
    bint is_answered
    uint8_t wish
    uint64_t silent_until_ns
    uint64_t judged             # the sequence whose result the committed log has
    uint64_t judged_hash        # of that result
    uint64_t told               # the sequence that was answered first
    uint64_t told_hash
    int32_t epoch               # as a producer
    uint32_t log                # of its last batch
    int64_t first_sequence      # of its last batch
    uint32_t count              # records of that batch
    int64_t[SIM_LOGS] next_sequence
    uint64_t values             # that it gave to records so far

# One append, trim or drop: what the model says of it.
cdef struct SimVerdict:
    uint64_t code
    uint64_t number
    uint64_t start
    bint is_repeated            # the batch is there

cdef struct SimTopics:
    SimTopic[SIM_TOPICS] topics
    SimOffsets[SIM_GROUP_KEYS] groups
    SimLog[SIM_LOGS] logs
    SimGroupView[SIM_GROUP_KEYS] before      # groups before the entry under judgement
    SimTopicClient[SIM_TOPIC_CLIENTS] clients
    TopicsRequest request       # scratch
    uint8_t[OFFSET_METADATA_BYTES_MAX + 1] metadata     # of offsets: zeros
    Vec[uint8_t] scratch
    Vec[uint8_t] batch
    Vec[uint8_t] fetched
