# The search through all states of a small world; exhaustive.pxd says what is searched and within which bounds.
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove

from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64
from raftmeta.raft.quorum cimport quorum_count
from raftmeta.raft.ready cimport CANDIDATE, LEADER
from raftmeta.raft.types cimport (APPEND_RESPONSE, HEARTBEAT_RESPONSE, VOTE_RESPONSE, Message, index_t,
                                  member_mask_t, term_t)
from raftmeta.sim.exhaustive_state cimport (ACT_BEGIN, ACT_CHANGE, ACT_CRASH, ACT_CRASH_AFTER_WRITE, ACT_DELIVER,
                                            ACT_HEARTBEAT, ACT_PERSIST, ACT_PROPOSE, ACT_TIME_OUT, BOUND_CHANGES,
                                            BOUND_CRASHES, BOUND_HEARTBEATS, BOUND_PROPOSALS, BOUND_TIME_OUTS, BOUNDS,
                                            SMALL_LOG_MAX, SMALL_NODES_MAX, SMALL_TERMS_MAX, Exhaustive,
                                            SmallActionKind, SmallBound, SmallConfig, SmallNodeState,
                                            SmallOrigin, SmallStep, SmallWorld, small_action_t)
from raftmeta.sim.small_node cimport (SMALL_COMMIT_NOT_DURABLE, SMALL_LEADER_INCOMPLETE, SMALL_LOG_MATCHING,
                                      SMALL_MEMBERSHIP, SMALL_NO_MEMORY, SMALL_STATE_MACHINE, SMALL_TWO_LEADERS,
                                      SmallNode, node_create)
from raftmeta.sim.small_parts cimport parts_create, parts_node, parts_release, parts_step
from raftmeta.status cimport OK

cdef enum:
    BITS_PER_TERM = 4           # of SmallWorld.leaders, and of each bound in a packed state


# --- life -------------------------------------------------------------------------------------------------------------
cdef Exhaustive* exhaustive_create(const SmallConfig* config) noexcept nogil:
    cdef Exhaustive* exhaustive
    if not _is_sound(config):
        return NULL
    exhaustive = <Exhaustive*>calloc(1, sizeof(Exhaustive))
    if exhaustive == NULL:
        return NULL
    exhaustive.config = config[0]
    if parts_create(exhaustive) != OK or not _begin(exhaustive):
        exhaustive_destroy(exhaustive)
        return NULL
    return exhaustive


cdef bint _is_sound(const SmallConfig* config) noexcept nogil:
    # Each election brings a noop, each change a joint membership and the one that follows it.
    cdef uint32_t entries = (config.bounds[<int>BOUND_TIME_OUTS] + config.bounds[<int>BOUND_PROPOSALS]
                             + 2 * config.bounds[<int>BOUND_CHANGES])
    # A leader that is removed hands over without a time-out, once to each of the others.
    cdef uint64_t terms = config.bounds[<int>BOUND_TIME_OUTS]
    cdef term_t begun = 0
    cdef uint32_t i
    if not 1 <= config.nodes <= SMALL_NODES_MAX:
        return False
    if config.bounds[<int>BOUND_CHANGES]:
        terms += config.nodes - 1
    for i in range(config.nodes):
        begun = max(begun, config.beginnings[i].term)
        entries += config.beginnings[i].length
    return terms + begun <= SMALL_TERMS_MAX and entries <= SMALL_LOG_MAX


cdef bint _begin(Exhaustive* exhaustive) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef SmallNode node
    cdef uint32_t i
    for i in range(exhaustive.config.nodes):
        exhaustive.config.beginnings[i].founding = &exhaustive.config.founding
        exhaustive.config.beginnings[i].has_single_appends = exhaustive.config.has_single_appends
        if node_create(&node, i, &exhaustive.config.beginnings[i]) != OK:
            return False
        world.nodes[i] = parts_node(exhaustive, &node)
        if world.nodes[i] == 0:
            return False
    for i in range(<uint32_t>BOUNDS):
        world.left[i] = exhaustive.config.bounds[i]
    return _keep(exhaustive, 0, <small_action_t>ACT_BEGIN)


cdef void exhaustive_destroy(Exhaustive* exhaustive) noexcept nogil:
    if exhaustive == NULL:
        return
    parts_release(exhaustive)
    exhaustive.seen.release()
    exhaustive.origins.release()
    exhaustive.queue.release()
    exhaustive.next.release()
    exhaustive.world.messages.release()
    exhaustive.successor.messages.release()
    free(exhaustive)


# --- states as words --------------------------------------------------------------------------------------------------
# nodes, then what is left of the bounds with committed_term, leaders, committed, the number of messages, and those.
cdef bint _pack(const SmallWorld* world, uint32_t nodes, Vec[uint32_t]* words) noexcept nogil:
    cdef uint32_t left = 0
    cdef uint32_t i
    for i in range(<uint32_t>BOUNDS):
        left = left << BITS_PER_TERM | world.left[i]
    left = left << BITS_PER_TERM | world.committed_term
    return (words.append(world.nodes, nodes) and words.push(left) and words.push(world.leaders)
            and words.push(world.committed) and words.push(<uint32_t>world.messages.size)
            and words.append(world.messages.data, world.messages.size))


# Returns how many words it was.
cdef size_t _unpack(SmallWorld* world, uint32_t nodes, const uint32_t* words) noexcept nogil:
    cdef uint32_t left = words[nodes]
    cdef uint32_t i
    for i in range(nodes):
        world.nodes[i] = words[i]
    world.committed_term = left & 15
    for i in range(<uint32_t>BOUNDS):
        left >>= BITS_PER_TERM
        world.left[BOUNDS - 1 - i] = left & 15
    world.leaders = words[nodes + 1]
    world.committed = words[nodes + 2]
    world.messages.clear()
    if not world.messages.append(words + nodes + 4, words[nodes + 3]):
        return 0
    return nodes + 4 + <size_t>world.messages.size


cdef bint _push_origin(Exhaustive* exhaustive, uint32_t parent, small_action_t action) noexcept nogil:
    cdef SmallOrigin origin
    origin.parent = parent
    origin.action = action
    return exhaustive.origins.push(origin)


# The successor is queued unless it was seen. False: no memory.
cdef bint _keep(Exhaustive* exhaustive, uint32_t parent, small_action_t action) noexcept nogil:
    cdef size_t start = exhaustive.next.size
    cdef uint8_t* seen
    if not _pack(&exhaustive.successor, exhaustive.config.nodes, &exhaustive.next):
        return False
    seen = exhaustive.seen.insert(hash64(0, exhaustive.next.data + start,
                                         (exhaustive.next.size - start) * sizeof(uint32_t)))
    if seen == NULL:
        return False
    if seen[0]:
        exhaustive.next.size = start
        return True
    seen[0] = 1
    return _push_origin(exhaustive, parent, action)


# --- the search -------------------------------------------------------------------------------------------------------
cdef uint32_t exhaustive_run(Exhaustive* exhaustive, uint32_t states) noexcept nogil:
    cdef uint32_t done = 0
    cdef size_t words
    while done < states and exhaustive.violation == 0 and _has_state(exhaustive):
        words = _unpack(&exhaustive.world, exhaustive.config.nodes, exhaustive.queue.data + exhaustive.taken_words)
        if words == 0:
            _violate(exhaustive, SMALL_NO_MEMORY)
            break
        exhaustive.taken_words += words
        _take(exhaustive)
        exhaustive.taken += 1
        done += 1
    return done


# When all states of this distance are taken, those behind them are next.
cdef bint _has_state(Exhaustive* exhaustive) noexcept nogil:
    cdef Vec[uint32_t] emptied = exhaustive.queue
    if exhaustive.taken_words < exhaustive.queue.size:
        return True
    exhaustive.queue = exhaustive.next
    exhaustive.next = emptied
    exhaustive.next.clear()
    exhaustive.taken_words = 0
    if exhaustive.queue.size and exhaustive.taken:
        exhaustive.depth += 1
    return exhaustive.queue.size > 0


cdef void _violate(Exhaustive* exhaustive, uint32_t violation) noexcept nogil:
    exhaustive.violation = violation
    exhaustive.violated_by = <uint32_t>exhaustive.origins.size - 1


# Everything that can happen in this state.
cdef void _take(Exhaustive* exhaustive) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.world
    cdef uint32_t i
    cdef size_t j
    for j in range(world.messages.size):
        i = <uint32_t>exhaustive.messages.data[world.messages.data[j]].target - 1
        _try(exhaustive, i, ACT_DELIVER, world.messages.data[j], <SmallBound>BOUNDS)
    for i in range(exhaustive.config.nodes):
        if exhaustive.nodes.data[world.nodes[i]].is_writing:
            _try(exhaustive, i, ACT_PERSIST, i, <SmallBound>BOUNDS)
        if _may_time_out(exhaustive, i):
            _try(exhaustive, i, ACT_TIME_OUT, i, BOUND_TIME_OUTS)
        if exhaustive.nodes.data[world.nodes[i]].role == LEADER:
            _try(exhaustive, i, ACT_PROPOSE, i, BOUND_PROPOSALS)
            _try(exhaustive, i, ACT_HEARTBEAT, i, BOUND_HEARTBEATS)
            _try(exhaustive, i, ACT_CHANGE, i, BOUND_CHANGES)
        if world.left[<int>BOUND_TIME_OUTS] < exhaustive.config.bounds[<int>BOUND_TIME_OUTS]:
            _try(exhaustive, i, ACT_CRASH, i, BOUND_CRASHES)
            if exhaustive.nodes.data[world.nodes[i]].is_writing:
                _try(exhaustive, i, ACT_CRASH_AFTER_WRITE, i, BOUND_CRASHES)


# Before anything has happened, members in the same roles may be exchanged: the first time-out is that of the first.
cdef bint _may_time_out(Exhaustive* exhaustive, uint32_t position) noexcept nogil:
    cdef uint32_t i
    if exhaustive.world.left[<int>BOUND_TIME_OUTS] < exhaustive.config.bounds[<int>BOUND_TIME_OUTS]:
        return True
    for i in range(position):
        if exhaustive.config.kinds[i] == exhaustive.config.kinds[position]:
            return False
    return True


# One action; bound: of which it uses one, BOUNDS: of none.
cdef void _try(Exhaustive* exhaustive, uint32_t position, SmallActionKind kind, uint32_t number,
               SmallBound bound) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.world
    cdef small_action_t action = <uint32_t>kind << 28 | number
    cdef const SmallStep* step
    cdef uint32_t violation
    if exhaustive.violation != 0 or (bound != BOUNDS and world.left[<int>bound] == 0):
        return
    step = parts_step(exhaustive, world.nodes[position], action)
    if step != NULL and not step.is_possible:
        return
    if step == NULL or not _succeed(exhaustive, position, step):
        _violate(exhaustive, SMALL_NO_MEMORY)
        return
    if bound == BOUNDS and step.violation == 0 and _is_same(exhaustive, step, position):
        return
    exhaustive.transitions += 1
    if bound != BOUNDS:
        exhaustive.successor.left[<int>bound] -= 1
    violation = step.violation if step.violation else _check(exhaustive, position)
    if violation:
        # Whether it was seen or not: an invariant may fall by the action, and not by the state that it leads to.
        _push_origin(exhaustive, exhaustive.taken, action)
        _violate(exhaustive, violation)
    elif not _keep(exhaustive, exhaustive.taken, action):
        _violate(exhaustive, SMALL_NO_MEMORY)


# Nothing changed: the node is what it was, and all that it said was said before.
cdef bint _is_same(Exhaustive* exhaustive, const SmallStep* step, uint32_t position) noexcept nogil:
    return (step.node == exhaustive.world.nodes[position]
            and exhaustive.successor.messages.size == exhaustive.world.messages.size)


# The world after the step, before its checks. False: no memory.
cdef bint _succeed(Exhaustive* exhaustive, uint32_t position, const SmallStep* step) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.world
    cdef SmallWorld* after = &exhaustive.successor
    cdef uint32_t i
    cdef size_t j
    memcpy(after.nodes, world.nodes, sizeof(world.nodes))
    memcpy(after.left, world.left, sizeof(world.left))
    after.leaders = world.leaders
    after.committed = world.committed
    after.committed_term = world.committed_term
    after.nodes[position] = step.node
    after.messages.clear()
    for j in range(world.messages.size):
        if _may_matter(exhaustive, after, world.messages.data[j]):
            if not after.messages.push(world.messages.data[j]):
                return False
    for i in range(step.sent_count):
        if not _send(exhaustive, after, exhaustive.sent.data[step.sent + i]):
            return False
    return True


# Into its place, in ascending order; a message that was sent before is there already.
cdef bint _send(Exhaustive* exhaustive, SmallWorld* world, uint32_t number) noexcept nogil:
    cdef size_t i = world.messages.size
    if not _may_matter(exhaustive, world, number):
        return True
    while i > 0 and world.messages.data[i - 1] >= number:
        i -= 1
    if i < world.messages.size and world.messages.data[i] == number:
        return True
    if not world.messages.push(number):
        return False
    memmove(world.messages.data + i + 1, world.messages.data + i,
            (world.messages.size - 1 - i) * sizeof(uint32_t))
    world.messages.data[i] = number
    return True


# An answer to a vote or to a leader can be taken only in its own term, by the one who asked in it: a member that is
# durably in that term and neither campaigns nor leads in it never will again; one in a later term never returns.
cdef bint _may_matter(Exhaustive* exhaustive, const SmallWorld* world, uint32_t number) noexcept nogil:
    cdef const Message* message = &exhaustive.messages.data[number]
    cdef const SmallNodeState* target = &exhaustive.nodes.data[world.nodes[message.target - 1]]
    if message.type != VOTE_RESPONSE and message.type != APPEND_RESPONSE and message.type != HEARTBEAT_RESPONSE:
        return True
    if message.term == target.durable_term:
        return target.role == LEADER or target.role == CANDIDATE
    return message.term > target.durable_term


# --- checks of the whole world ----------------------------------------------------------------------------------------
# After an action of the node at this position; the other nodes are what they were. 0, or the SmallViolation.
cdef uint32_t _check(Exhaustive* exhaustive, uint32_t position) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef const SmallNodeState* state = &exhaustive.nodes.data[world.nodes[position]]
    cdef uint32_t violation = 0
    cdef uint32_t i
    if state.role == LEADER:
        violation = _check_leader(exhaustive, state, position)
    for i in range(exhaustive.config.nodes):
        if i != position and violation == 0:
            violation = _check_matching(exhaustive, state, &exhaustive.nodes.data[world.nodes[i]])
    if violation == 0 and state.committed:
        violation = _check_committed(exhaustive, state, position)
    for i in range(exhaustive.config.nodes):
        if violation == 0:
            violation = _check_completeness(exhaustive, &exhaustive.nodes.data[world.nodes[i]])
    return violation if violation else _check_changes(exhaustive, state)


# I1.
cdef uint32_t _check_leader(Exhaustive* exhaustive, const SmallNodeState* state, uint32_t position) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef uint32_t shift = <uint32_t>(state.term - 1) * BITS_PER_TERM
    cdef uint32_t known = world.leaders >> shift & 15
    if known != 0 and known != position + 1:
        return SMALL_TWO_LEADERS
    world.leaders |= (position + 1) << shift
    return 0


# I3: leaders of later terms than the one in which an entry was committed.
cdef uint32_t _check_completeness(Exhaustive* exhaustive, const SmallNodeState* state) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef index_t index = exhaustive.entries.data[world.committed].index
    if state.role == LEADER and state.term > world.committed_term and state.log[index] != world.committed:
        return SMALL_LEADER_INCOMPLETE
    return 0


# I2: the last place where both have the same term is the same entry, and so is all before it.
cdef uint32_t _check_matching(Exhaustive* exhaustive, const SmallNodeState* one,
                              const SmallNodeState* other) noexcept nogil:
    cdef index_t index = min(one.log_length, other.log_length)
    while index > 0:
        if exhaustive.entries.data[one.log[index]].term == exhaustive.entries.data[other.log[index]].term:
            return 0 if one.log[index] == other.log[index] else SMALL_LOG_MATCHING
        index -= 1
    return 0


# I4; and I7 where an entry is committed for the first time.
cdef uint32_t _check_committed(Exhaustive* exhaustive, const SmallNodeState* state, uint32_t position) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef uint32_t known = world.committed
    while exhaustive.entries.data[known].index > state.committed:
        known = exhaustive.entries.data[known].previous
    if state.log[exhaustive.entries.data[known].index] != known:
        return SMALL_STATE_MACHINE
    if state.committed == exhaustive.entries.data[known].index:
        return 0
    world.committed = state.log[state.committed]
    world.committed_term = <uint8_t>state.term
    return 0 if _is_durable(exhaustive, state.committed, position) else SMALL_COMMIT_NOT_DURABLE


# By the voters that were in force for the node when it counted: what it appended since is decided by others.
cdef bint _is_durable(Exhaustive* exhaustive, index_t index, uint32_t position) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef const SmallNodeState* counted = &exhaustive.nodes.data[exhaustive.world.nodes[position]]
    cdef member_mask_t holders = 0
    cdef uint32_t i
    for i in range(exhaustive.config.nodes):
        if exhaustive.nodes.data[world.nodes[i]].durable[index] == world.committed:
            holders |= <member_mask_t>1 << i
    return _is_majority(counted.incoming, holders) and _is_majority(counted.outgoing, holders)


# Of no voters everything is one (paper 6: outside a change there is one electorate).
cdef bint _is_majority(member_mask_t voters, member_mask_t holders) noexcept nogil:
    return voters == 0 or 2 * quorum_count(voters & holders) > quorum_count(voters)


# I10: of the entries that are not committed at most one changes the membership.
cdef uint32_t _check_changes(Exhaustive* exhaustive, const SmallNodeState* state) noexcept nogil:
    cdef index_t index = exhaustive.entries.data[exhaustive.successor.committed].index + 1
    cdef uint32_t changes = 0
    while index <= state.log_length:
        changes += state.configurations[index]
        index += 1
    return SMALL_MEMBERSHIP if changes > 1 else 0


# --- the way to a state -----------------------------------------------------------------------------------------------
cdef bint exhaustive_path(const Exhaustive* exhaustive, uint32_t state, Vec[uint32_t]* actions) noexcept nogil:
    cdef size_t i
    cdef uint32_t moved
    actions.clear()
    while state != 0:
        if not actions.push(exhaustive.origins.data[state].action):
            return False
        state = exhaustive.origins.data[state].parent
    for i in range(actions.size // 2):
        moved = actions.data[i]
        actions.data[i] = actions.data[actions.size - 1 - i]
        actions.data[actions.size - 1 - i] = moved
    return True
