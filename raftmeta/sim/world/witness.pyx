"""Is what clients saw the history of registers and counters that take one command at a time (I24)?

An independent witness of I12, I13 and I14: it knows when calls were made and answered and which values they saw, and
nothing of indexes, revisions or nodes. Each value is written once, so everybody who wrote or saw it belongs together.
One value was certainly there before another when somebody was done with it before anybody called for the other. Two
values that were each there before the other are no history (Gibbons and Korach, "Testing Shared Memories", 1997: zones
of registers whose values are unique). With first_return and last_call of two values v, w that is

    v.first_return < w.last_call  and  w.first_return < v.last_call

It decides nothing but that, with each answer. It must never search; each answer is compared with the values
that came up between the first time its own was seen and its call.
Time is the number of the event: what happens in one event is concurrent.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.machine.machine cimport machine_get
from raftmeta.sim.world.world_state cimport SIM_KEYS, VIOLATION_HISTORY, VIOLATION_NO_MEMORY, SimSight, violate
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport Bytes, KeyView

cdef enum:
    VALUE_NUMBER_BYTES = 8      # a put's value begins with its number (raftmeta/sim/world/workload)

cdef uint64_t NEVER = ~<uint64_t>0


cdef inline uint64_t _now(const World* world) noexcept nogil:
    return world.counts.events + 1


# The sight of this value; a new one if nobody has seen it. NULL: no memory.
cdef SimSight* _sight(World* world, SimRegister* register, uint64_t value) noexcept nogil:
    cdef uint32_t* place = register.places.insert(value)
    cdef SimSight sight
    if place == NULL:
        return NULL
    if place[0] == 0:
        sight.first_return = _now(world) if value != 0 else <uint64_t>0
        sight.last_call = 0
        sight.limit = NEVER
        if not register.sights.push(sight):
            return NULL
        place[0] = <uint32_t>register.sights.size
    return &register.sights.data[place[0] - 1]


# Values stand in the order in which they were first seen. Those behind this one are compared now, and are told how
# late they may still be seen; those before it have told it.
cdef bint _contradicts(SimRegister* register, SimSight* sight) noexcept nogil:
    cdef SimSight* other = sight + 1
    cdef const SimSight* end = register.sights.data + register.sights.size
    if sight.last_call > sight.limit:
        return True
    while other < end and other.first_return < sight.last_call:
        if other.last_call > sight.first_return:
            return True
        other.limit = min(other.limit, sight.first_return)
        other += 1
    return False


cdef void witness_saw(World* world, const SimNode* node, uint32_t key, uint64_t value, uint64_t called) noexcept nogil:
    cdef SimRegister* register = &world.truth.registers[key]
    cdef uint64_t* written = register.calls.insert(value)
    cdef SimSight* sight
    # No value at all is what everybody has seen before the first event.
    if written == NULL or _sight(world, register, 0) == NULL or _sight(world, register, value) == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    sight = _sight(world, register, value)
    sight.last_call = max(sight.last_call, max(called, written[0]))
    if (value != 0 and written[0] == 0) or written[0] == NEVER or _contradicts(register, sight):
        violate(world, VIOLATION_HISTORY, node.number, key, value)


# --- calls and answers ------------------------------------------------------------------------------------------------
cdef void witness_called(World* world, const SimCall* call) noexcept nogil:
    cdef uint64_t* written = world.truth.registers[call.key].calls.insert(call.number)
    if written == NULL:
        violate(world, VIOLATION_NO_MEMORY, call.node, 0, 0)
    else:
        written[0] = call.called


cdef void witness_done(World* world, const SimNode* node, const SimCall* call) noexcept nogil:
    witness_saw(world, node, call.key, call.number, call.called)


cdef void witness_refused(World* world, const SimCall* call) noexcept nogil:
    cdef uint64_t* written = world.truth.registers[call.key].calls.insert(call.number)
    if written != NULL:
        written[0] = NEVER


cdef uint64_t _value_at(SimNode* node, uint32_t key) noexcept nogil:
    cdef uint8_t[5] name
    cdef Bytes bytes
    cdef KeyView view
    cdef uint64_t value = 0
    memcpy(name, b"key-a", 5)
    name[4] += <uint8_t>key
    bytes.data = name
    bytes.length = 5
    memset(&view, 0, sizeof(KeyView))
    if machine_get(node.engine.machine, &bytes, 0, &view) == OK and view.value.length >= VALUE_NUMBER_BYTES:
        memcpy(&value, view.value.data, VALUE_NUMBER_BYTES)
    return value


cdef void witness_read(World* world, SimNode* node, const SimCall* call) noexcept nogil:
    cdef uint32_t key
    for key in range(<uint32_t>SIM_KEYS):
        if witness_watches(key):
            witness_saw(world, node, key, _value_at(node, key), call.called)


# A call that began after a number was answered gets a higher one.
cdef void witness_counted(World* world, const SimNode* node, const SimCall* call, int64_t number) noexcept nogil:
    if number <= call.floor_number:
        violate(world, VIOLATION_HISTORY, node.number, call.key, <uint64_t>number)


cdef void witness_release(World* world) noexcept nogil:
    cdef int key
    for key in range(SIM_KEYS):
        world.truth.registers[key].sights.release()
        world.truth.registers[key].places.release()
        world.truth.registers[key].calls.release()
