# Questions of operators about worker groups at the Kafka door: DescribeGroups, ListGroups, DeleteGroups.
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask

cdef void describe_groups_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void describe_groups_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void list_groups_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void list_groups_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void delete_groups_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void delete_groups_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
