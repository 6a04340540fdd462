# Topics and offsets as the pinned state shows them, and who may see them (docs/kafka-topics.md). It decides nothing:
# machine/topics and machine/offsets do.
#
#     kafka-topics/<name>  ->  id, partitions, configs (machine/topic_records)
from libc.stdint cimport int16_t, uint8_t, uint32_t, uint64_t

from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest
from raftmeta.machine.entry cimport Entry
from raftmeta.machine.topic_records cimport OffsetKey, OffsetRecord, TopicRecord
from raftmeta.machine.tree cimport Cursor
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.topics cimport TopicItem, TopicsRequest

# The prefix of all topics' keys: the root of every request for topics.
cdef Bytes topic_root() noexcept nogil
# Whether a topic may be called so (org.apache.kafka.common.internals.Topic.validate).
cdef bint topic_is_name(const Bytes* name) noexcept nogil
# The entry of a topic, and its key. Windows of the record point into the state. NULL: there is no such topic.
cdef const Entry* topic_entry(KafkaDoor* door, const Bytes* name, OffsetKey* key, TopicRecord* topic) noexcept nogil
# The same without them. False: there is no such topic.
cdef bint topic_find(KafkaDoor* door, const Bytes* name, TopicRecord* topic) noexcept nogil
# The same by its id; the name is a window into the state.
cdef bint topic_find_id(KafkaDoor* door, const uint8_t* id, Bytes* name, TopicRecord* topic) noexcept nogil
# A walk over all topics in order of names.
cdef void topic_walk(KafkaDoor* door, Cursor* cursor) noexcept nogil
cdef bint topic_next(Cursor* cursor, Bytes* name, TopicRecord* topic) noexcept nogil
# KAFKA_OK; the code for a user who may not change the topic; or for a trail that cannot be written and must be.
cdef int16_t topic_may_change(KafkaDoor* door, KafkaRequest* request, const Bytes* name) noexcept nogil
# The code for a command over topics that came back so.
cdef int16_t topic_status_code(status_t status) noexcept nogil
# The value that a topic's configs have for the name. False: none.
cdef bint topic_config(const TopicRecord* topic, const Bytes* name, Bytes* value) noexcept nogil
# Whether the user of the connection has these rights over the key of the topic. A refusal is noted.
cdef bint topic_allows(KafkaDoor* door, KafkaRequest* request, uint8_t rights, const Bytes* name) noexcept nogil
# The offset of a partition that a group, told by its key, has committed. False: none, or of a topic that has gone.
cdef bint offset_find(KafkaDoor* door, const Bytes* group, const Bytes* name, uint32_t partition,
                      OffsetRecord* offset) noexcept nogil
# A walk over all offsets of a group; those of topics that have gone are passed over.
cdef void offset_walk(KafkaDoor* door, const Bytes* group, OffsetKey* head, Cursor* cursor) noexcept nogil
cdef bint offset_next(KafkaDoor* door, const OffsetKey* head, Cursor* cursor, OffsetRecord* offset) noexcept nogil
# Submit a COMMAND_TOPICS for the request. after: sequence of the door that must have been applied before; 0: none.
cdef bint topics_command(KafkaDoor* door, KafkaRequest* request, const TopicsRequest* asked, const TopicItem* items,
                         uint32_t count, uint64_t after, status_t* status) noexcept nogil
