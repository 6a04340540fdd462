"""States that were met, by shape; states.pxd says which are one and which cover which."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.native.intrinsics cimport hash64
from raftmeta.raft.membership cimport membership_position
from raftmeta.raft.types cimport VOTER_INCOMING, Membership
from raftmeta.sim.small.exhaustive_state cimport (BITS_PER_TERM, BOUND_CHANGES, BOUNDS, SMALL_NODES_MAX,
                                                  SMALL_TERMS_MAX, Exhaustive, SmallConfig, SmallNaming, SmallState,
                                                  SmallWorld, small_action_t)
from raftmeta.status cimport NO_MEMORY, OK, status_t

cdef enum:
    LEFT_HIGH_BITS = 0x88888    # one above each bound in a packed word: no bound reaches it


# --- namings ----------------------------------------------------------------------------------------------------------
# All that exchange nodes of one kind, the one that exchanges none first.
cdef status_t states_create(Exhaustive* exhaustive) noexcept nogil:
    cdef SmallNaming naming
    memset(&naming, 0, sizeof(naming))
    if not _name_from(exhaustive, &naming, 1):
        return NO_MEMORY
    _find_inverses(exhaustive)
    return OK


# Names for the nodes from `id` on, in ascending order, so that the first naming is each node's own.
cdef bint _name_from(Exhaustive* exhaustive, SmallNaming* naming, uint32_t id) noexcept nogil:
    cdef uint32_t name, i
    cdef bint is_free
    if id > exhaustive.config.nodes:
        return exhaustive.namings.push(naming[0])
    for name in range(1, exhaustive.config.nodes + 1):
        is_free = _may_exchange(exhaustive, id, name)
        for i in range(1, id):
            is_free = is_free and naming.names[i] != name
        if is_free:
            naming.names[id] = <uint8_t>name
            if not _name_from(exhaustive, naming, id + 1):
                return False
    return True


cdef bint _may_exchange(const Exhaustive* exhaustive, uint32_t id, uint32_t name) noexcept nogil:
    return id == name or (exhaustive.config.kinds[id - 1] == exhaustive.config.kinds[name - 1]
                          and not exhaustive.config.is_plain and not _may_remove_voter(&exhaustive.config))


# A leader that is removed hands over to the first of those that hold most: there the order of members makes a
# difference (raft/transfer), so that an exchange of nodes is not the same history under other names.
cdef bint _may_remove_voter(const SmallConfig* config) noexcept nogil:
    cdef uint8_t changes = config.bounds[<int>BOUND_CHANGES]
    return ((changes >= 1 and _has_voter_beyond(&config.founding, &config.target))
            or (changes >= 2 and _has_voter_beyond(&config.target, &config.founding)))


cdef bint _has_voter_beyond(const Membership* one, const Membership* other) noexcept nogil:
    cdef uint32_t i
    cdef int position
    for i in range(one.count):
        position = membership_position(other, one.members[i].id)
        if one.members[i].roles & VOTER_INCOMING and (position < 0
                                                      or not other.members[position].roles & VOTER_INCOMING):
            return True
    return False


cdef void _find_inverses(Exhaustive* exhaustive) noexcept nogil:
    cdef size_t i, j
    cdef uint32_t id, name
    cdef bint is_inverse
    for i in range(exhaustive.namings.size):
        for j in range(exhaustive.namings.size):
            is_inverse = True
            for id in range(1, exhaustive.config.nodes + 1):
                name = exhaustive.namings.data[i].names[id]
                is_inverse = is_inverse and exhaustive.namings.data[j].names[name] == id
            if is_inverse:
                exhaustive.namings.data[i].inverse = <uint32_t>j


cdef void states_release(Exhaustive* exhaustive) noexcept nogil:
    exhaustive.namings.release()
    exhaustive.states.release()
    exhaustive.words.release()
    exhaustive.shapes.release()
    exhaustive.world.messages.release()
    exhaustive.successor.messages.release()
    exhaustive.named.release()
    exhaustive.answered.release()


# --- shapes -----------------------------------------------------------------------------------------------------------
# What must be equal in two states before one can cover the other.
cdef uint64_t _shape(const Exhaustive* exhaustive, const SmallWorld* world, size_t naming) noexcept nogil:
    cdef const uint8_t* names = exhaustive.namings.data[naming].names
    cdef uint64_t[SMALL_NODES_MAX + 2] words
    cdef uint32_t i
    for i in range(exhaustive.config.nodes):
        words[names[i + 1] - 1] = exhaustive.node_digests.data[world.nodes[i] * exhaustive.namings.size + naming]
    words[exhaustive.config.nodes] = _named_leaders(world.leaders, names)
    words[exhaustive.config.nodes + 1] = <uint64_t>world.committed << 8 | world.committed_term
    return hash64(0, words, (exhaustive.config.nodes + 2) * sizeof(uint64_t))


cdef uint32_t _named_leaders(uint32_t leaders, const uint8_t* names) noexcept nogil:
    cdef uint32_t named = 0
    cdef uint32_t i
    for i in range(<uint32_t>SMALL_TERMS_MAX):
        named |= <uint32_t>names[leaders >> (i * BITS_PER_TERM) & 15] << (i * BITS_PER_TERM)
    return named


cdef size_t _least_naming(const Exhaustive* exhaustive, const SmallWorld* world, uint64_t* shape) noexcept nogil:
    cdef uint64_t named
    cdef size_t i, least = 0
    shape[0] = _shape(exhaustive, world, 0)
    for i in range(1, exhaustive.namings.size):
        named = _shape(exhaustive, world, i)
        if named < shape[0]:
            shape[0] = named
            least = i
    return least


# --- states as words --------------------------------------------------------------------------------------------------
# nodes, leaders, committed, committed_term, what is left, the number of messages; and those, under the state's naming
# and ascending.
cdef bint _pack(Exhaustive* exhaustive, const SmallWorld* world) noexcept nogil:
    cdef uint32_t nodes = exhaustive.config.nodes
    return (exhaustive.words.append(world.nodes, nodes) and exhaustive.words.push(world.leaders)
            and exhaustive.words.push(world.committed) and exhaustive.words.push(world.committed_term)
            and exhaustive.words.push(_left(world)) and exhaustive.words.push(<uint32_t>exhaustive.named.size)
            and exhaustive.words.append(exhaustive.named.data, exhaustive.named.size))


cdef uint32_t _left(const SmallWorld* world) noexcept nogil:
    cdef uint32_t left = 0
    cdef uint32_t i
    for i in range(<uint32_t>BOUNDS):
        left = left << BITS_PER_TERM | world.left[i]
    return left


cdef bint states_load(Exhaustive* exhaustive, uint32_t number) noexcept nogil:
    cdef const SmallState* state = &exhaustive.states.data[number]
    cdef const uint32_t* words = exhaustive.words.data + state.at
    cdef SmallWorld* world = &exhaustive.world
    cdef size_t namings = exhaustive.namings.size
    cdef uint32_t inverse = exhaustive.namings.data[state.naming].inverse
    cdef uint32_t i, left
    for i in range(exhaustive.config.nodes):
        world.nodes[i] = words[i]
    words += exhaustive.config.nodes
    world.leaders = words[0]
    world.committed = words[1]
    world.committed_term = <uint8_t>words[2]
    left = words[3]
    for i in range(<uint32_t>BOUNDS):
        world.left[BOUNDS - 1 - i] = left & 15
        left >>= BITS_PER_TERM
    world.messages.clear()
    for i in range(words[4]):
        if not world.messages.push(exhaustive.message_names.data[words[5 + i] * namings + inverse]):
            return False
    return True


# Messages under this naming, ascending, into exhaustive.named; a bit for each modulo 64. False: no memory.
cdef bint _name_messages(Exhaustive* exhaustive, const SmallWorld* world, size_t naming,
                         uint64_t* signature) noexcept nogil:
    cdef size_t namings = exhaustive.namings.size
    cdef uint32_t* named
    cdef uint32_t number
    cdef size_t i, j
    signature[0] = 0
    if not exhaustive.named.resize(world.messages.size):
        return False
    named = exhaustive.named.data
    for i in range(world.messages.size):
        number = exhaustive.message_names.data[world.messages.data[i] * namings + naming]
        signature[0] |= <uint64_t>1 << (number & 63)
        j = i
        while j > 0 and named[j - 1] > number:
            named[j] = named[j - 1]
            j -= 1
        named[j] = number
    return True


# --- cover ------------------------------------------------------------------------------------------------------------
# From the word that holds what is left: has one at least as much of each bound, and every message of the other?
cdef bint _covers(const uint32_t* one, const uint32_t* other) noexcept nogil:
    cdef uint32_t i, j = 0
    if ((one[0] | LEFT_HIGH_BITS) - other[0]) & LEFT_HIGH_BITS != LEFT_HIGH_BITS or one[1] < other[1]:
        return False
    for i in range(other[1]):
        while j < one[1] and one[2 + j] < other[2 + i]:
            j += 1
        if j == one[1] or one[2 + j] != other[2 + i]:
            return False
    return True


cdef bint _is_same(const uint32_t* one, const uint32_t* other) noexcept nogil:
    return one[0] == other[0] and one[1] == other[1] and _covers(one, other)


cdef bint states_keep(Exhaustive* exhaustive, uint32_t parent, small_action_t action) noexcept nogil:
    cdef SmallState state
    cdef uint64_t shape
    cdef uint32_t* known
    memset(&state, 0, sizeof(state))
    state.naming = <uint8_t>_least_naming(exhaustive, &exhaustive.successor, &shape)
    state.at = exhaustive.words.size
    state.parent = parent
    state.action = action
    known = exhaustive.shapes.insert(shape)
    if (known == NULL or not _name_messages(exhaustive, &exhaustive.successor, state.naming, &state.signature)
            or not _pack(exhaustive, &exhaustive.successor)):
        return False
    if _is_covered(exhaustive, known[0], &state):
        exhaustive.words.size = state.at
        return True
    if not exhaustive.config.is_plain:
        _cover(exhaustive, known, &state)
    state.alike = known[0]
    if not exhaustive.states.push(state):
        return False
    known[0] = <uint32_t>exhaustive.states.size
    return True


cdef bint _is_covered(const Exhaustive* exhaustive, uint32_t known, const SmallState* state) noexcept nogil:
    cdef size_t head = exhaustive.config.nodes + 3
    cdef const uint32_t* words = exhaustive.words.data + head
    cdef const SmallState* other
    while known != 0:
        other = &exhaustive.states.data[known - 1]
        if state.signature & ~other.signature == 0:
            if not exhaustive.config.is_plain and _covers(words + other.at, words + state.at):
                return True
            if _is_same(words + other.at, words + state.at):
                return True
        known = other.alike
    return False


# Those that the new state covers are in nobody's way any more; one that waits need not be taken.
cdef void _cover(Exhaustive* exhaustive, uint32_t* known, const SmallState* state) noexcept nogil:
    cdef size_t head = exhaustive.config.nodes + 3
    cdef const uint32_t* words = exhaustive.words.data + head
    cdef SmallState* other
    while known[0] != 0:
        other = &exhaustive.states.data[known[0] - 1]
        if other.signature & ~state.signature == 0 and _covers(words + state.at, words + other.at):
            if not other.is_covered:
                exhaustive.covered += 1
            other.is_covered = True
            known[0] = other.alike
        else:
            known = &other.alike
