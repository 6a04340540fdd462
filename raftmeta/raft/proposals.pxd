# Proposals: the leader appends them, other members forward them, and the leader refuses them when there is no room
# (decisions/README.md "Full disk").
#
#     NOT_READY    leadership is being handed over (thesis 3.10)
#     OVERLOADED   the leader's uncommitted bytes are at their limit
#     NO_SPACE     no majority, the leader among them, has room for growth; a full leader hands over to one with room
# Urgent ones (keep-alives, fences, deletes, membership changes) pass the last two: they end the shortage.
# A refusal means that this leader certainly did not append. No answer means nothing.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport Message
from raftmeta.status cimport status_t

cdef status_t proposals_append(Core* core, const Slice* payloads, uint32_t count, bint is_urgent) noexcept nogil
cdef status_t proposals_forward(Core* core, const Slice* payloads, uint32_t count, uint64_t context, bint is_urgent,
                                bint is_waiting) noexcept nogil
cdef status_t proposals_on_message(Core* core, const Message* message) noexcept nogil
cdef status_t proposals_on_response(Core* core, const Message* message) noexcept nogil
