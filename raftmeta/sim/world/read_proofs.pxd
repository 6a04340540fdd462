# I13 at its source: a read is served only when a leader has proven, since the read was asked, that it still leads.
#
# A round is sent with a number (raft/rounds). The answers of a quorum to rounds that were sent at time t or later prove
# that no other leader was elected before t; so they serve the reads that were asked before t (thesis 6.4). The world
# knows when each round was sent first and when each read was asked, and compares the two. A number that comes twice, an
# answer that is counted for a younger question, a round joined too late: each serves a read that nothing proves.
# A leader that is the only voter proves its lead without a round. The voters that count are those in force when the
# proof is made: when the answer leaves, a change of membership may have given others a vote.
# With lease_reads a proof of time t serves what is asked within an election time-out after t (thesis 6.4.1).
from libc.stdint cimport uint64_t

from raftmeta.raft.types cimport Message
from raftmeta.sim.world.world_state cimport SimNode, SimSaid, World

# The node is about to send this message: a round, a question, or the answer to a question.
cdef void proofs_said(World* world, SimNode* node, const Message* message) noexcept nogil
# The node's engine took a message. The answer to a round or to a question proves something; any other may have been a
# question that the only voter answered at once.
cdef void proofs_heard(World* world, SimNode* node, const SimSaid* said) noexcept nogil
# The node is about to run, or ran. A proof that it has by now stays a proof when other members decide afterwards.
cdef void proofs_look(World* world, SimNode* node) noexcept nogil
# A read that was asked at this time is answered on the node.
cdef void proofs_check(World* world, SimNode* node, uint64_t asked_ns) noexcept nogil
# Another life of the node begins.
cdef void proofs_begin(SimNode* node) noexcept nogil
cdef void proofs_release(World* world) noexcept nogil
