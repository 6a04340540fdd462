"""The search through all states of a small world; exhaustive.pxd says what is searched and within which bounds."""
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta.native.containers cimport Vec
from raftmeta.raft.ready cimport CANDIDATE, LEADER
from raftmeta.raft.types cimport APPEND_RESPONSE, HEARTBEAT_RESPONSE, VOTE_RESPONSE, Message, term_t
from raftmeta.sim.small.checks cimport checks_after
from raftmeta.sim.small.exhaustive_state cimport (ACT_BEGIN, ACT_CHANGE, ACT_CRASH, ACT_CRASH_AFTER_WRITE, ACT_DELIVER,
                                                  ACT_HEARTBEAT, ACT_PERSIST, ACT_PROPOSE, ACT_TIME_OUT, BOUND_CHANGES,
                                                  BOUND_CRASHES, BOUND_HEARTBEATS, BOUND_PROPOSALS, BOUND_TIME_OUTS,
                                                  BOUNDS, SMALL_LOG_MAX, SMALL_NODES_MAX, SMALL_TERMS_MAX, Exhaustive,
                                                  SmallActionKind, SmallBound, SmallConfig, SmallNodeState, SmallState,
                                                  SmallStep, SmallWorld, small_action_t)
from raftmeta.sim.small.node cimport SMALL_NO_MEMORY, SmallNode, node_create
from raftmeta.sim.small.parts cimport parts_create, parts_node, parts_release, parts_step
from raftmeta.sim.small.states cimport states_create, states_keep, states_load, states_release
from raftmeta.status cimport OK

cdef enum:
    ACTION_SHIFT = 28
    ACTION_NUMBER = 0x0FFFFFFF


# --- life -------------------------------------------------------------------------------------------------------------
cdef Exhaustive* exhaustive_create(const SmallConfig* config) noexcept nogil:
    cdef Exhaustive* exhaustive
    if not _is_sound(config):
        return NULL
    exhaustive = <Exhaustive*>calloc(1, sizeof(Exhaustive))
    if exhaustive == NULL:
        return NULL
    exhaustive.config = config[0]
    if states_create(exhaustive) != OK or parts_create(exhaustive) != OK or not _begin(exhaustive):
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
    terms += config.bounds[<int>BOUND_CHANGES] * (config.nodes - 1)
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
        exhaustive.config.beginnings[i].forgets = not exhaustive.config.is_plain
        exhaustive.config.beginnings[i].may_crash = exhaustive.config.bounds[<int>BOUND_CRASHES] != 0
        exhaustive.config.beginnings[i].may_change = exhaustive.config.bounds[<int>BOUND_CHANGES] != 0
        if node_create(&node, i, &exhaustive.config.beginnings[i]) != OK:
            return False
        world.nodes[i] = parts_node(exhaustive, &node)
        if world.nodes[i] == 0:
            return False
    for i in range(<uint32_t>BOUNDS):
        world.left[i] = exhaustive.config.bounds[i]
    return states_keep(exhaustive, 0, <small_action_t>ACT_BEGIN)


cdef void exhaustive_destroy(Exhaustive* exhaustive) noexcept nogil:
    if exhaustive == NULL:
        return
    parts_release(exhaustive)
    states_release(exhaustive)
    free(exhaustive)


# --- the search -------------------------------------------------------------------------------------------------------
cdef uint32_t exhaustive_run(Exhaustive* exhaustive, uint32_t states) noexcept nogil:
    cdef uint32_t done = 0
    while done < states and exhaustive.violation == 0 and exhaustive.taken < exhaustive.states.size:
        if exhaustive.taken == exhaustive.turned:
            # All states of one distance are taken, those behind them are next.
            exhaustive.turned = <uint32_t>exhaustive.states.size
            exhaustive.depth += exhaustive.taken != 0
        if not exhaustive.states.data[exhaustive.taken].is_covered:
            if not states_load(exhaustive, exhaustive.taken):
                _violate(exhaustive, SMALL_NO_MEMORY, exhaustive.taken, <small_action_t>ACT_BEGIN)
                break
            exhaustive_take(exhaustive)
        exhaustive.taken += 1
        done += 1
    return done


# Whether the state behind it was met or not: an invariant may fall by the action.
cdef void _violate(Exhaustive* exhaustive, uint32_t violation, uint32_t parent, small_action_t action) noexcept nogil:
    cdef SmallState state
    memset(&state, 0, sizeof(state))
    state.parent = parent
    state.action = action
    state.is_covered = True         # it is the end of a path, and never taken
    exhaustive.violation = violation
    exhaustive.violated_by = <uint32_t>exhaustive.states.size
    if not exhaustive.states.push(state):
        exhaustive.violation = SMALL_NO_MEMORY
        exhaustive.violated_by = 0


cdef void exhaustive_take(Exhaustive* exhaustive) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.world
    cdef uint32_t i
    cdef size_t j
    for i in range(exhaustive.config.nodes):
        if exhaustive.nodes.data[world.nodes[i]].is_writing:
            _try_write(exhaustive, i)
            if not exhaustive.config.has_slow_disks:
                return              # nothing else happens before the write has ended
    for j in range(world.messages.size):
        i = <uint32_t>exhaustive.messages.data[world.messages.data[j]].target - 1
        _try(exhaustive, i, ACT_DELIVER, world.messages.data[j], <SmallBound>BOUNDS)
    for i in range(exhaustive.config.nodes):
        _try(exhaustive, i, ACT_TIME_OUT, i, BOUND_TIME_OUTS)
        if exhaustive.nodes.data[world.nodes[i]].role == LEADER:
            _try(exhaustive, i, ACT_PROPOSE, i, BOUND_PROPOSALS)
            _try(exhaustive, i, ACT_HEARTBEAT, i, BOUND_HEARTBEATS)
            _try(exhaustive, i, ACT_CHANGE, i, BOUND_CHANGES)
        if not exhaustive.nodes.data[world.nodes[i]].is_writing:
            _try(exhaustive, i, ACT_CRASH, i, BOUND_CRASHES)


cdef void _try_write(Exhaustive* exhaustive, uint32_t position) noexcept nogil:
    _try(exhaustive, position, ACT_PERSIST, position, <SmallBound>BOUNDS)
    _try(exhaustive, position, ACT_CRASH, position, BOUND_CRASHES)
    _try(exhaustive, position, ACT_CRASH_AFTER_WRITE, position, BOUND_CRASHES)


# One action; bound: of which it uses one, BOUNDS: of none.
cdef void _try(Exhaustive* exhaustive, uint32_t position, SmallActionKind kind, uint32_t number,
               SmallBound bound) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.world
    cdef small_action_t action = <uint32_t>kind << ACTION_SHIFT | number
    cdef SmallStep step
    cdef uint32_t violation
    if exhaustive.violation != 0 or (bound != BOUNDS and world.left[<int>bound] == 0):
        return
    if not _find_step(exhaustive, world.nodes[position], action, &step):
        _violate(exhaustive, SMALL_NO_MEMORY, exhaustive.taken, action)
        return
    if not step.is_possible:
        return
    if not _succeed(exhaustive, position, &step):
        _violate(exhaustive, SMALL_NO_MEMORY, exhaustive.taken, action)
        return
    if bound == BOUNDS and step.violation == 0 and _is_same(exhaustive, &step, position):
        return
    exhaustive.transitions += 1
    if bound != BOUNDS:
        exhaustive.successor.left[<int>bound] -= 1
    violation = step.violation if step.violation else checks_after(exhaustive, position)
    if violation:
        exhaustive.broken = step.broken
        _violate(exhaustive, violation, exhaustive.taken, action)
    elif not _answer_all(exhaustive, position) or not states_keep(exhaustive, exhaustive.taken, action):
        _violate(exhaustive, SMALL_NO_MEMORY, exhaustive.taken, action)


# A copy: what is found next may move the known ones. False: no memory.
cdef bint _find_step(Exhaustive* exhaustive, uint32_t node, small_action_t action, SmallStep* step) noexcept nogil:
    cdef const SmallStep* known = parts_step(exhaustive, node, action)
    if known != NULL:
        step[0] = known[0]
    return known != NULL


# Nothing changed: the node is what it was, and all that it said was said before.
cdef bint _is_same(Exhaustive* exhaustive, const SmallStep* step, uint32_t position) noexcept nogil:
    return (step.node == exhaustive.world.nodes[position]
            and exhaustive.successor.messages.size == exhaustive.world.messages.size)


# The world after the step, before its checks. False: no memory.
cdef bint _succeed(Exhaustive* exhaustive, uint32_t position, const SmallStep* step) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.world
    cdef SmallWorld* after = &exhaustive.successor
    cdef uint32_t i, number
    cdef size_t j
    memcpy(after.nodes, world.nodes, sizeof(world.nodes))
    memcpy(after.left, world.left, sizeof(world.left))
    after.leaders = world.leaders
    after.committed = world.committed
    after.committed_term = world.committed_term
    after.nodes[position] = step.node
    after.messages.clear()
    for j in range(world.messages.size):
        number = world.messages.data[j]
        if exhaustive.messages.data[number].target != position + 1 or _may_matter(exhaustive, after, number):
            if not after.messages.push(number):
                return False
    exhaustive.answered_before = after.messages.size
    for i in range(step.sent_count):
        if not _send(exhaustive, after, exhaustive.sent.data[step.sent + i]):
            return False
    return True


# Messages that leave their node as it is, and are answered: the answers only add to what can happen, so they are given
# at once. Questions to other nodes were answered in the state before.
cdef bint _answer_all(Exhaustive* exhaustive, uint32_t position) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef size_t before = exhaustive.answered_before
    cdef size_t i = 0
    exhaustive.answered.clear()
    while i < world.messages.size and not exhaustive.config.is_plain:
        if i >= before or exhaustive.messages.data[world.messages.data[i]].target == position + 1:
            if not _answer(exhaustive, world.messages.data[i]):
                return False
        i += 1
    return True


cdef bint _answer(Exhaustive* exhaustive, uint32_t number) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef uint32_t node = world.nodes[exhaustive.messages.data[number].target - 1]
    cdef size_t before = world.messages.size
    cdef SmallStep step
    cdef uint32_t i
    if not _find_step(exhaustive, node, <uint32_t>ACT_DELIVER << ACTION_SHIFT | number, &step):
        return False
    if not step.is_possible or step.node != node or step.violation:
        return True
    for i in range(step.sent_count):
        if not _send(exhaustive, world, exhaustive.sent.data[step.sent + i]):
            return False
    return world.messages.size == before or exhaustive.answered.push(number)


cdef bint _send(Exhaustive* exhaustive, SmallWorld* world, uint32_t number) noexcept nogil:
    cdef size_t i
    if not _may_matter(exhaustive, world, number):
        return True
    for i in range(world.messages.size):
        if world.messages.data[i] == number:
            return True             # it was sent before
    return world.messages.push(number)


# An answer to a vote or to a leader can be taken only in its own term, by the one who asked in it: a member that is
# durably in that term and neither campaigns nor leads in it never will again; one in a later term never returns.
cdef bint _may_matter(Exhaustive* exhaustive, const SmallWorld* world, uint32_t number) noexcept nogil:
    cdef const Message* message = &exhaustive.messages.data[number]
    cdef const SmallNodeState* target = &exhaustive.nodes.data[world.nodes[message.target - 1]]
    if message.type != VOTE_RESPONSE and message.type != APPEND_RESPONSE and message.type != HEARTBEAT_RESPONSE:
        return True
    if exhaustive.config.is_plain:
        return True
    if message.term == target.durable_term:
        return target.role == LEADER or target.role == CANDIDATE
    return message.term > target.durable_term


# --- the way to a state -----------------------------------------------------------------------------------------------
# Backwards: of what was answered on the way beside the actions, only answers that were taken later belong to it.
cdef bint exhaustive_path(Exhaustive* exhaustive, uint32_t state, Vec[uint32_t]* actions) noexcept nogil:
    cdef Vec[uint32_t] taken
    cdef bint is_whole = True
    memset(&taken, 0, sizeof(taken))
    actions.clear()
    while state != 0 and is_whole:
        is_whole = _push_way(exhaustive, &exhaustive.states.data[state], &taken, actions)
        state = exhaustive.states.data[state].parent
    taken.release()
    _reverse(actions)
    return is_whole


cdef bint _push_way(Exhaustive* exhaustive, const SmallState* state, Vec[uint32_t]* taken,
                    Vec[uint32_t]* actions) noexcept nogil:
    cdef small_action_t action = state.action
    cdef uint32_t position, number
    cdef SmallStep step
    cdef size_t i
    if not states_load(exhaustive, state.parent):
        return False
    position = (action & ACTION_NUMBER)
    if action >> ACTION_SHIFT == <uint32_t>ACT_DELIVER:
        position = <uint32_t>exhaustive.messages.data[position].target - 1
    if not _find_step(exhaustive, exhaustive.world.nodes[position], action, &step):
        return False
    if not _succeed(exhaustive, position, &step) or not _answer_all(exhaustive, position):
        return False
    i = exhaustive.answered.size
    while i > 0:
        i -= 1
        number = exhaustive.answered.data[i]
        if not _find_step(exhaustive, exhaustive.successor.nodes[exhaustive.messages.data[number].target - 1],
                          <uint32_t>ACT_DELIVER << ACTION_SHIFT | number, &step):
            return False
        if _sends_one_of(exhaustive, &step, taken) and not (taken.push(number)
                                                            and actions.push(<uint32_t>ACT_DELIVER << ACTION_SHIFT
                                                                             | number)):
            return False
    if action >> ACTION_SHIFT == <uint32_t>ACT_DELIVER and not taken.push(action & ACTION_NUMBER):
        return False
    return actions.push(action)


cdef bint _sends_one_of(const Exhaustive* exhaustive, const SmallStep* step,
                        const Vec[uint32_t]* wanted) noexcept nogil:
    cdef uint32_t i
    cdef size_t j
    for i in range(step.sent_count):
        for j in range(wanted.size):
            if wanted.data[j] == exhaustive.sent.data[step.sent + i]:
                return True
    return False


cdef void _reverse(Vec[uint32_t]* actions) noexcept nogil:
    cdef uint32_t moved
    cdef size_t i
    for i in range(actions.size // 2):
        moved = actions.data[i]
        actions.data[i] = actions.data[actions.size - 1 - i]
        actions.data[actions.size - 1 - i] = moved
