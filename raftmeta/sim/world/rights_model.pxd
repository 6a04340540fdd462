# A model of docs/security.md "Rights": it judges each committed command of a principal, and the nodes must agree (I26).
#
#     I26     nothing that the rights at an entry's place in the log forbid is applied, and all else is; and every node
#             that has applied as far answers the same to who may read, write, watch or lease what
#
# The model is written from docs/security.md. It shares no code with machine/rights: it keeps users, roles, grants,
# leases and sessions in small tables, takes the committed log one entry after the other, and walks each transaction by
# itself. It knows principals' commands only. It never changes a node.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.raft.types cimport index_t
from raftmeta.sim.world.world_state cimport SimNode, World
from raftmeta.wire.commands cimport Bytes

# The entry at the next index is committed.
cdef void rights_model_take(World* world, index_t index, uint64_t chain) noexcept nogil
# The node has applied up to an index: if the model stands there, they agree.
cdef void rights_model_check(World* world, SimNode* node) noexcept nogil
cdef void rights_model_release(World* world) noexcept nogil

# Names of the world. The window stands in `into`, which has 8 bytes.
cdef Bytes user_name(uint32_t user, uint8_t* into) noexcept nogil
cdef Bytes role_name(uint32_t role, uint8_t* into) noexcept nogil
cdef Bytes rights_key(uint32_t key, uint8_t* into) noexcept nogil
cdef Bytes admin_name() noexcept nogil
cdef Bytes client_name() noexcept nogil
