# Consumer groups (KIP-848) as the pinned state shows them. It decides nothing: machine/consumer_groups does.
from libc.stdint cimport uint8_t

from raftmeta.doors.kafka.state cimport KafkaDoor
from raftmeta.machine.group_records cimport GroupRecord
from raftmeta.wire.commands cimport Bytes

# ConsumerGroup.ConsumerGroupState.
cdef enum ConsumerGroupState:
    CONSUMER_GROUP_EMPTY = 0
    CONSUMER_GROUP_ASSIGNING = 1        # it has no target for its epoch yet
    CONSUMER_GROUP_RECONCILING = 2      # a member has not come to its target
    CONSUMER_GROUP_STABLE = 3

# key: of the group, which is a consumer group.
cdef uint8_t consumer_group_state(KafkaDoor* door, const Bytes* key, const GroupRecord* group) noexcept nogil
cdef const char* consumer_group_word(uint8_t state) noexcept nogil
