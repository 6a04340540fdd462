# Configs of topics at the Kafka door: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs (docs/kafka-topics.md).
#
# The machine decides what a list of configs becomes. This module knows which values a config may have. Brokers have no
# configs of their own here.
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask
from raftmeta.wire.commands cimport Bytes

# Whether a topic may have this config. Of names that nobody here knows any value is good.
cdef bint topic_config_may_be(const Bytes* name, const Bytes* value) noexcept nogil

cdef void describe_configs_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void describe_configs_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
# Both kinds of a change.
cdef void alter_configs_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void alter_configs_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
