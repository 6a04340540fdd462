# Members of worker groups at the Kafka door: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (docs/groups.md).
#
#     JoinGroup    a command that grants the member's lease with it -> the end of the join phase, seen in the state
#     SyncGroup    of a leader a command, else a read round -> the assignments, seen in the state
#     Heartbeat    a read round -> is it a member of this generation?
#     LeaveGroup   a command
#
# The machine decides each of them; this module decides which answer the state comes to. A member that waits holds
# nothing but its request: its connection looks at the state again when a group has changed. A member that was heard of,
# and one whose request waits, is kept alive by its lease (keep.pxd).
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask

cdef void join_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void join_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void join_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
cdef void sync_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void sync_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void sync_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
cdef void heartbeat_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void heartbeat_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void leave_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void leave_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
