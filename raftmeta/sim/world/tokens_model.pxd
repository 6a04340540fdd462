# Tokens of the model of rights, and the founder: docs/security.md "Tokens" and "The first admin" (a part of I26).
#
# A token is its user's right to speak. It ends with its time on the lease clock, when somebody ends it, with its user,
# and when its user gets another password. Nothing makes it last longer. The founder may do one thing: make an admin.
# After that it is gone, so its token counts once.
#
# Like rights_model it shares no code with machine/rights, and it never changes a node.
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.machine.rights_state cimport RightsTable
from raftmeta.sim.world.world_state cimport SimNode, SimRightsModel, SimToken, SimUser, World
from raftmeta.wire.commands cimport Bytes

# NULL: there is no such token.
cdef SimToken* token_of(SimRightsModel* model, uint64_t id) noexcept nogil
cdef uint64_t tokens_count(const SimRightsModel* model) noexcept nogil
# Names under which a token and the founder speak. The window stands in `into`, which has 16 bytes.
cdef Bytes token_name(uint64_t id, uint8_t* into) noexcept nogil
cdef Bytes founder_name() noexcept nogil
# The user for whom the name of a token or of the founder speaks, and its token; NULL: nobody.
cdef SimUser* tokens_speaker(SimRightsModel* model, const Bytes* name, SimToken** token) noexcept nogil

# --- what entries do; model.command is the one. False: nothing was changed --------------------------------------------
cdef bint token_make(World* world, const SimUser* user) noexcept nogil
cdef bint token_end(World* world, uint64_t id) noexcept nogil
cdef void tokens_of_user_end(World* world, uint64_t user) noexcept nogil
# An entry that ends leases by their time.
cdef bint tokens_expire(World* world) noexcept nogil
cdef bint founder_make(World* world) noexcept nogil
# True: the founder goes, and the named user becomes an admin.
cdef bint founder_claims(World* world) noexcept nogil

# The table of a node that has applied as far has the same tokens and the same founder.
cdef void tokens_check(World* world, const SimNode* node, const RightsTable* table) noexcept nogil
