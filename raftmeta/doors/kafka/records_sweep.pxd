# Record logs whose topic is gone are dropped (docs/kafka-records.md).
#
# Once in a while this module looks at some logs in the order of their keys. A log names its topic and the topic's id,
# and no id comes twice: a log whose topic has another id, or is not there, is of nobody. Every node does so, and a log
# that is dropped twice is dropped.
from raftmeta.doors.kafka.state cimport KafkaDoor

# Once a turn, while the door serves.
cdef void records_sweep(KafkaDoor* door) noexcept nogil
