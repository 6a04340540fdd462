"""Tokens of the model of rights, and the founder: bodies."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.machine.rights_state cimport RIGHTS_FOUND, TokenAsked, UserSecret
from raftmeta.machine.rights_table cimport table_token, table_user
from raftmeta.sim.world.world_state cimport SIM_TOKENS, SIM_USERS, VIOLATION_RIGHTS, violate
from raftmeta.wire.commands cimport LeaseItem

cdef enum:
    NAME_BYTES = 9              # docs/formats.md: a zero byte and the id
    TTL_MS_MAX = 604_800_000    # seven days


# --- who --------------------------------------------------------------------------------------------------------------
cdef SimToken* token_of(SimRightsModel* model, uint64_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(SIM_TOKENS):
        if id != 0 and model.tokens[i].id == id:
            return &model.tokens[i]
    return NULL

cdef uint64_t tokens_count(const SimRightsModel* model) noexcept nogil:
    cdef uint64_t count = 0
    cdef uint32_t i
    for i in range(SIM_TOKENS):
        count += model.tokens[i].id != 0
    return count

cdef Bytes token_name(uint64_t id, uint8_t* into) noexcept nogil:
    cdef Bytes name
    into[0] = 0
    memcpy(into + 1, &id, sizeof(id))
    name.data = into
    name.length = NAME_BYTES
    return name

cdef Bytes founder_name() noexcept nogil:
    cdef Bytes name
    name.data = <const uint8_t*>b"\0f"
    name.length = 2
    return name

cdef SimUser* _user_of(SimRightsModel* model, uint64_t number) noexcept nogil:
    cdef uint32_t i
    for i in range(SIM_USERS):
        if model.users[i].number == number:
            return &model.users[i]
    return NULL

cdef SimUser* tokens_speaker(SimRightsModel* model, const Bytes* name, SimToken** token) noexcept nogil:
    cdef Bytes founder = founder_name()
    cdef uint64_t id
    token[0] = NULL
    if name.length == founder.length and memcmp(name.data, founder.data, founder.length) == 0:
        return &model.founder if model.founder.number else NULL
    if name.length != NAME_BYTES:
        return NULL
    memcpy(&id, name.data + 1, sizeof(id))
    token[0] = token_of(model, id)
    return _user_of(model, token[0].user) if token[0] != NULL else NULL


# --- what entries do --------------------------------------------------------------------------------------------------
cdef bint token_make(World* world, const SimUser* user) noexcept nogil:
    cdef SimRightsModel* model = &world.rights
    cdef const TokenAsked* asked = <const TokenAsked*>model.command.data.data
    cdef uint32_t i
    if user == NULL or user.number == 0 or not 1 <= asked.ttl_ms <= TTL_MS_MAX or token_of(model, asked.id) != NULL:
        return False
    for i in range(SIM_TOKENS):
        if model.tokens[i].id == 0:
            model.tokens[i].id = asked.id
            model.tokens[i].user = user.number
            model.tokens[i].since = model.changes + 1
            model.tokens[i].deadline_ms = model.lease_ms + asked.ttl_ms
            world.counts.tokens_made += 1
            return True
    model.is_lost = True
    return False

cdef bint token_end(World* world, uint64_t id) noexcept nogil:
    cdef SimToken* token = token_of(&world.rights, id)
    if token == NULL:
        return False
    memset(token, 0, sizeof(SimToken))
    world.counts.tokens_ended += 1
    return True

cdef void tokens_of_user_end(World* world, uint64_t user) noexcept nogil:
    cdef SimToken* token
    cdef uint32_t i
    for i in range(SIM_TOKENS):
        token = &world.rights.tokens[i]
        if token.id != 0 and token.user == user:
            token_end(world, token.id)

cdef bint tokens_expire(World* world) noexcept nogil:
    cdef SimRightsModel* model = &world.rights
    cdef const LeaseItem* item
    cdef SimToken* token
    cdef bint is_any = False
    cdef size_t i
    for i in range(model.command.leases.size):
        item = &model.command.leases.data[i]
        token = token_of(model, item.lease)
        if token != NULL and token.deadline_ms <= model.lease_ms:
            if token.deadline_ms == item.deadline_ms:
                is_any = token_end(world, token.id)
                world.counts.tokens_expired += 1
    return is_any

cdef bint founder_make(World* world) noexcept nogil:
    cdef SimRightsModel* model = &world.rights
    if model.command.id == RIGHTS_FOUND and model.changes != 0:
        return False
    if model.founder.number == 0:
        model.next_number += 1
        model.founder.number = model.next_number
    model.founder.since = model.changes + 1
    memcpy(&model.founder.password, (<const UserSecret*>model.command.data.data).salt, sizeof(uint64_t))
    return True

cdef bint founder_claims(World* world) noexcept nogil:
    if world.rights.founder.number == 0:
        return False
    memset(&world.rights.founder, 0, sizeof(SimUser))
    world.counts.founders_claimed += 1
    return True


# --- the nodes --------------------------------------------------------------------------------------------------------
cdef void tokens_check(World* world, const SimNode* node, const RightsTable* table) noexcept nogil:
    cdef SimRightsModel* model = &world.rights
    cdef Bytes founder = founder_name()
    cdef const SimToken* token
    cdef uint32_t i
    if table.tokens.size != tokens_count(model):
        violate(world, VIOLATION_RIGHTS, node.number, 5000, table.tokens.size)
    for i in range(SIM_TOKENS):
        token = &model.tokens[i]
        if token.id != 0 and (table_token(table, token.id) == NULL
                              or table_token(table, token.id).since != token.since):
            violate(world, VIOLATION_RIGHTS, node.number, 6000, token.id)
    if (table_user(table, founder.data, founder.length) != NULL) != (model.founder.number != 0):
        violate(world, VIOLATION_RIGHTS, node.number, 7000, model.founder.number)
