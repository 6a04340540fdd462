# Changes of a topic's configs (docs/kafka-topics.md).
#
# This module decides what a list of configs becomes by a list of changes, at apply. It is a pure function of the two.
from libc.stdint cimport uint8_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

# Append the new list to out. configs: the list as it is; both are msgpack that was looked through. is_whole: configs
# without a change go. *code gets a TopicCode: TOPIC_OK, or TOPIC_INVALID_CONFIG for a list that a topic may not have,
# and then nothing is appended. OK, NO_MEMORY.
cdef status_t topic_configs_change(const Bytes* configs, const Bytes* changes, bint is_whole, Vec[uint8_t]* out,
                                   int* code) noexcept nogil
