# The Kafka door of a node: its socket, its settings, its figures.
from raftmeta.doors.kafka.state cimport KafkaDoor
from raftmeta.loop.loop cimport Loop

# After the loop was opened and before it is started. NULL: this node has no such door.
# host: a KafkaDoor (face/kafka_door), whose program keeps the records of topics; None: raftmeta keeps them.
# Raises AddressInUse, ConfigError.
cdef KafkaDoor* open_kafka(Loop* loop, object identity, object config, object host) except? NULL
cdef dict kafka_metrics(const KafkaDoor* door)
