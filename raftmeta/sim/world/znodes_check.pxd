# The nodes beside the model of znodes, and znodes beside one another.
#
#     I27     the counters of a znode say what is below it
#     I29     an ephemeral is there exactly as long as its owner's lease
#     I32     above each znode there is one, and it is no ephemeral
#     I33     what a node has after an entry is what ZooKeeper's rules make of the log up to there; its reads show it
# and I28, I30 and I31 (znodes_model) where a node's own state contradicts them.
#
# The first node that has applied what the model took is compared whole; others have the same state (I20), and each
# answers some reads.
from raftmeta.sim.world.world_state cimport SimNode, World

# The node has applied up to an index: if the model stands there, they agree.
cdef void znodes_check(World* world, SimNode* node) noexcept nogil
