# The Kafka door of a node: its socket, its settings, its figures.
from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.doors.kafka.state cimport KafkaDoor
from raftmeta.loop.loop cimport Loop

# After the loop was opened and before it is started. NULL: this node has no such door.
# accounts: of the node. Raises AddressInUse, ConfigError.
cdef KafkaDoor* open_kafka(Loop* loop, Accounts* accounts, object identity, object config) except? NULL
cdef dict kafka_metrics(const KafkaDoor* door)
