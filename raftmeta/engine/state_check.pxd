# The engine's part in comparing states (engine/divergence): when marks are made and sent, and what follows.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.engine.divergence cimport divergence_is_point
from raftmeta.engine.state cimport Engine
from raftmeta.raft.types cimport index_t, member_id_t
from raftmeta.status cimport status_t

# The entry at `index` was applied, and divergence_is_point of it. STATE_DIVERGED: this node must stop.
cdef status_t state_check_applied(Engine* engine, index_t index) noexcept nogil
# A peer's FRAME_STATE. STATE_DIVERGED; BAD_FIELD, BAD_LENGTH: not a mark.
cdef status_t state_check_heard(Engine* engine, member_id_t peer, const uint8_t* body, uint32_t length) noexcept nogil
