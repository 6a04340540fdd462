# Topics: a name, an id, a number of partitions, and configs (docs/kafka-topics.md).
#
# A topic is a key with ENTRY_TOPIC: the root of its request and its name. This module decides, at apply, what a request
# for topics does, each of its topics for itself. Only it makes, changes and removes these keys. It knows neither the
# records of a topic nor its offsets: an offset names the id of its topic, and so ends with it.
from raftmeta.machine.state cimport Machine
from raftmeta.machine.topic_records cimport TopicRecord
from raftmeta.status cimport status_t
from raftmeta.wire.topics cimport TopicsRequest
from raftmeta.wire.windows cimport Bytes

# The topic as the entry under way sees it; windows point into the state. False: there is none.
cdef bint topics_find(Machine* machine, const Bytes* root, const Bytes* name, TopicRecord* topic) noexcept nogil
# Do a CREATE, DELETE, PARTITIONS or CONFIGS of machine.command as a plan. The body of the answer stands in
# machine.transaction.body. OK, TOO_MANY_CHANGES, NO_MEMORY.
cdef status_t topics_run(Machine* machine, const TopicsRequest* request) noexcept nogil
