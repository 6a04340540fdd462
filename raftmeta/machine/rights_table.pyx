"""The table of rights: bodies. All bytes that spans point to stand in one arena, which does not move."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.machine.plan cimport compare_bytes
from raftmeta.machine.rights_state cimport (RIGHT_ADMIN, RIGHTS_OF_KEYS, RIGHTS_OF_KEYS_COUNT, SEED_BYTES,
                                            TOKEN_NAME_BYTES, GrantHead, KeySpan, Role, TableRole, User)


# --- making -----------------------------------------------------------------------------------------------------------
cdef RightsTable* table_create(const Rights* rights) noexcept nogil:
    cdef RightsTable* table = <RightsTable*>calloc(1, sizeof(RightsTable))
    if table == NULL:
        return NULL
    table.holders = 1
    table.is_enabled = rights.is_enabled
    table.revision = rights.revision
    table.has_seed = seed_is_set(rights.seed)
    memcpy(table.seed, rights.seed, SEED_BYTES)
    if not _add_roles(table, rights) or not _add_users(table, rights) or not _add_tokens(table, rights):
        table_destroy(table)
        return NULL
    return table

cdef bint seed_is_set(const uint8_t* seed) noexcept nogil:
    cdef int i
    for i in range(SEED_BYTES):
        if seed[i]:
            return True
    return False

cdef void table_destroy(RightsTable* table) noexcept nogil:
    table.users.release()
    table.roles.release()
    table.tokens.release()
    table.spans.release()
    table.arena.release()
    free(table)

cdef bint _add_roles(RightsTable* table, const Rights* rights) noexcept nogil:
    cdef size_t bytes = 0
    cdef size_t i
    for i in range(rights.roles.size):
        bytes += rights.roles.data[i].grants.size
    if not table.arena.reserve(bytes) or not table.roles.resize(rights.roles.size):
        return False
    for i in range(rights.roles.size):
        if not _add_role(table, &rights.roles.data[i], &table.roles.data[i]):
            return False
    return True

cdef bint _add_role(RightsTable* table, const Role* role, TableRole* into) noexcept nogil:
    cdef const uint8_t* grants = table.arena.data + table.arena.size
    cdef size_t length = role.grants.size
    cdef size_t offset = 0
    cdef int position
    into.number = role.number
    into.name_length = role.name_length
    memcpy(into.name, role.name, role.name_length)
    into.grants.data = grants
    into.grants.length = <uint32_t>length
    table.arena.append(role.grants.data, length)        # there is room
    while offset < length:
        into.rights |= (<const GrantHead*>(grants + offset)).rights
        offset += _grant_bytes(grants + offset)
    for position in range(RIGHTS_OF_KEYS_COUNT):
        into.first[position] = <uint32_t>table.spans.size
        if not _add_spans(table, grants, length, <uint8_t>(1 << position), into.first[position]):
            return False
        into.count[position] = <uint32_t>table.spans.size - into.first[position]
    return True

cdef inline size_t _grant_bytes(const uint8_t* grant) noexcept nogil:
    cdef const GrantHead* head = <const GrantHead*>grant
    return sizeof(GrantHead) + head.start_length + head.end_length

# Grants ascend by their start: each extends the last span or begins another.
cdef bint _add_spans(RightsTable* table, const uint8_t* grants, size_t length, uint8_t right,
                     uint32_t first) noexcept nogil:
    cdef size_t offset = 0
    cdef const GrantHead* head
    cdef KeySpan span
    cdef KeySpan* last
    while offset < length:
        head = <const GrantHead*>(grants + offset)
        span.start.data = grants + offset + sizeof(GrantHead)
        span.start.length = head.start_length
        span.end.data = span.start.data + head.start_length
        span.end.length = head.end_length
        offset += _grant_bytes(grants + offset)
        if not head.rights & right:
            continue
        last = &table.spans.back() if table.spans.size > first else NULL
        if last == NULL or _ends_before(last, &span.start):
            if not table.spans.push(span):
                return False
        elif last.end.length and (span.end.length == 0 or _order(&last.end, &span.end) < 0):
            last.end = span.end
    return True

cdef inline int _order(const Bytes* left, const Bytes* right) noexcept nogil:
    return compare_bytes(left.data, left.length, right.data, right.length)

# Whether the key at `place` lies behind the span with a gap between.
cdef inline bint _ends_before(const KeySpan* span, const Bytes* place) noexcept nogil:
    return span.end.length != 0 and _order(&span.end, place) < 0

cdef bint _add_users(RightsTable* table, const Rights* rights) noexcept nogil:
    cdef const User* user
    cdef TableUser* into
    cdef size_t i, j, place
    if not table.users.resize(rights.users.size):
        return False
    for i in range(rights.users.size):
        user = &rights.users.data[i]
        into = &table.users.data[i]
        into.table = table
        into.number = user.number
        into.since = user.since
        into.secret = user.secret
        into.name_length = user.name_length
        memcpy(into.name, user.name, user.name_length)
        for j in range(user.roles.size):
            for place in range(table.roles.size):
                if table.roles.data[place].number == user.roles.data[j]:
                    into.roles[into.role_count] = <uint16_t>place
                    into.role_count += 1
                    into.rights |= table.roles.data[place].rights
    return True


cdef bint _add_tokens(RightsTable* table, const Rights* rights) noexcept nogil:
    cdef TableToken* into
    cdef size_t i, j
    if not table.tokens.resize(rights.tokens.size):
        return False
    for i in range(rights.tokens.size):
        into = &table.tokens.data[i]
        into.id = rights.tokens.data[i].id
        into.since = rights.tokens.data[i].since
        into.secret = rights.tokens.data[i].secret
        for j in range(table.users.size):
            if table.users.data[j].number == rights.tokens.data[i].user:
                into.user = &table.users.data[j]
    return True


# --- asking -----------------------------------------------------------------------------------------------------------
cdef const TableUser* table_user(const RightsTable* table, const uint8_t* name, uint32_t length) noexcept nogil:
    cdef size_t low = 0
    cdef size_t high = table.users.size
    cdef size_t middle
    cdef const TableUser* user
    cdef int order
    while low < high:
        middle = (low + high) // 2
        user = &table.users.data[middle]
        order = compare_bytes(user.name, user.name_length, name, length)
        if order == 0:
            return user
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return NULL

cdef const TableToken* table_token(const RightsTable* table, uint64_t id) noexcept nogil:
    cdef size_t low = 0
    cdef size_t high = table.tokens.size
    cdef size_t middle
    while low < high:
        middle = (low + high) // 2
        if table.tokens.data[middle].id == id:
            return &table.tokens.data[middle]
        if table.tokens.data[middle].id < id:
            low = middle + 1
        else:
            high = middle
    return NULL

cdef const TableUser* table_principal(const RightsTable* table, const uint8_t* name, uint32_t length,
                                      const TableToken** token) noexcept nogil:
    cdef uint64_t id
    token[0] = NULL
    if length != TOKEN_NAME_BYTES or name[0] != 0:
        return table_user(table, name, length)
    memcpy(&id, name + 1, sizeof(id))
    token[0] = table_token(table, id)
    return token[0].user if token[0] != NULL else NULL

# The span of a role that holds the key at `place`; NULL: none.
cdef const KeySpan* _span_at(const RightsTable* table, const TableRole* role, int position,
                             const Bytes* place) noexcept nogil:
    cdef const KeySpan* spans = table.spans.data + role.first[position]
    cdef size_t low = 0
    cdef size_t high = role.count[position]
    cdef size_t middle
    while low < high:       # the first span that begins behind `place`
        middle = (low + high) // 2
        if _order(&spans[middle].start, place) <= 0:
            low = middle + 1
        else:
            high = middle
    if low == 0 or (spans[low - 1].end.length and _order(&spans[low - 1].end, place) <= 0):
        return NULL
    return &spans[low - 1]

# The farthest end among the spans of the user that hold `place`; NULL: none does.
cdef const KeySpan* _farthest(const TableUser* user, int position, const Bytes* place) noexcept nogil:
    cdef const KeySpan* farthest = NULL
    cdef const KeySpan* span
    cdef uint32_t i
    for i in range(user.role_count):
        span = _span_at(user.table, &user.table.roles.data[user.roles[i]], position, place)
        if span == NULL:
            continue
        if farthest == NULL or span.end.length == 0 or (farthest.end.length
                                                        and _order(&farthest.end, &span.end) < 0):
            farthest = span
        if farthest.end.length == 0:
            break
    return farthest

cdef bint rights_allow(const TableUser* user, uint8_t right, const Bytes* start, const Bytes* end,
                       bint is_key) noexcept nogil:
    cdef const KeySpan* span
    cdef Bytes place
    cdef int position = 0
    if user == NULL:
        return False
    if user.rights & RIGHT_ADMIN or (not is_key and end.length and _order(end, start) <= 0):
        return True
    if not user.rights & right or not right & RIGHTS_OF_KEYS:
        return (user.rights & right) != 0
    while not right >> position & 1:
        position += 1
    place = start[0]
    while True:         # each turn moves `place` on to the end of a span
        span = _farthest(user, position, &place)
        if span == NULL or span.end.length == 0 or is_key:
            return span != NULL
        if end.length and _order(&span.end, end) >= 0:
            return True
        place = span.end
