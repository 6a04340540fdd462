# Topics and offsets by the rules of docs/kafka-topics.md, in plain structs: what a request answers, and what it leaves.
#
# It knows the committed log alone, and no key of a machine. A group's members are those that the checked machine showed
# before the entry (raftmeta/sim/world/groups_check judges them).
from libc.stdint cimport int64_t, uint32_t, uint64_t

from raftmeta.sim.world.groups_state cimport SimGroupView
from raftmeta.sim.world.topics_state cimport SimText, SimTopics
from raftmeta.wire.topics cimport TopicItem, TopicsRequest
from raftmeta.wire.windows cimport Bytes

cdef void topic_root(SimText* text) noexcept nogil
cdef void topic_name(uint32_t topic, SimText* text) noexcept nogil
cdef void log_name(uint32_t log, SimText* text) noexcept nogil
cdef Bytes text_bytes(const SimText* text) noexcept nogil
# The number that a name of a topic, or of a log, ends with.
cdef uint32_t number_of(const Bytes* name) noexcept nogil

# The code of one item of a create, delete or extension, which is carried out. revision: of the entry.
cdef int64_t model_topic(SimTopics* topics, const TopicsRequest* request, const TopicItem* item,
                         uint64_t revision) noexcept nogil
# The code of a commit for its group; partitions are looked at one by one.
cdef int64_t model_committer(const TopicsRequest* request, SimGroupView* before) noexcept nogil
# The code of one item of a commit, which is carried out. code: model_committer's.
cdef int64_t model_commit(SimTopics* topics, uint32_t group, const TopicItem* item, int64_t code) noexcept nogil
# The code of a delete of offsets for its group, and that of one item, which is carried out.
cdef int64_t model_deleter(SimGroupView* before) noexcept nogil
cdef int64_t model_delete(SimTopics* topics, uint32_t group, const TopicItem* item) noexcept nogil
# The time of a group's offsets, behind an entry. is_committed: the entry wrote one of them.
cdef void model_follow(SimTopics* topics, uint32_t group, SimGroupView* before, SimGroupView* after, bint is_committed,
                       uint64_t lease_ms) noexcept nogil
