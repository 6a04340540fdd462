# Offsets of groups: committed, and deleted (docs/kafka-topics.md has the tables).
#
# This module decides, at apply, what an OffsetCommit and an OffsetDelete do: generation, member and topic are looked at
# in the entry that writes the offset. machine/group_offsets has the keys, machine/groups the group. Reads are none of
# its business: a door reads the keys.
#
# Invariants: an offset is what the last accepted commit said; a commit of another generation changes nothing.
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t
from raftmeta.wire.topics cimport TopicsRequest

# Do the request of machine.command (COMMAND_TOPICS) as a plan, whatever its verb. The body of the answer stands in
# machine.transaction.body. OK, TOO_MANY_CHANGES, NO_MEMORY, INVARIANT_BROKEN.
cdef status_t offsets_run(Machine* machine) noexcept nogil
