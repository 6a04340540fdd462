"""Processes that are ended: bodies.

The world knows which processes run, because it starts and stops them. It takes nothing of what engines believe.
Sources: decisions/README.md "Leases of the dead"; docs/invariants.md I60, I61.
"""

from libc.stdint cimport uint8_t, uint64_t

from raftmeta.machine.machine cimport machine_session_exists
from raftmeta.raft.types cimport ENTRY_COMMAND
from raftmeta.sim.world.entries cimport entries_find
from raftmeta.sim.world.world_state cimport (VIOLATION_ENDED_ALIVE, VIOLATION_ENDED_ACTS, VIOLATION_NO_MEMORY,
                                             SimEndedProcess, SimNamedSession, violate)
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport (COMMAND_PROCESS_END, COMMAND_SESSION_OPEN, COMMAND_SPOKEN, Command,
                                     command_decode, command_init, command_release)


# The kind stands behind the head of a short array.
cdef bint processes_wants(const Record* record) noexcept nogil:
    cdef const uint8_t* payload = <const uint8_t*>record + sizeof(Record)
    return (record.type == ENTRY_COMMAND and record.length > 1
            and payload[1] in (COMMAND_SESSION_OPEN, COMMAND_SPOKEN, COMMAND_PROCESS_END))


cdef void _end(World* world, SimNode* node, index_t index, const Command* command) noexcept nogil:
    cdef SimEndedProcess ended
    cdef SimNode* other
    cdef SimNamedSession* named
    cdef size_t i
    ended.member = command.member
    ended.boot = command.boot
    ended.index = index
    for i in range(<size_t>world.config.nodes):
        other = &world.nodes[i]
        # Once a folder was put back its boot numbers come again.
        if (world.counts.put_backs == 0 and other.is_up and other.engine.id == command.member
                and other.engine.boot <= command.boot):
            violate(world, VIOLATION_ENDED_ALIVE, node.number, index, other.number)
    for i in range(world.truth.named.size):
        named = &world.truth.named.data[i]
        if named.member == ended.member and named.boot <= ended.boot and named.ended == 0:
            named.ended = index
    world.counts.processes_ended += 1
    if not world.truth.ended.push(ended):
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)


cdef void processes_take(World* world, SimNode* node, index_t index, uint64_t chain) noexcept nogil:
    cdef const Record* record = entries_find(world, chain)
    cdef SimNamedSession named
    cdef Command command
    if record == NULL or not processes_wants(record):
        return
    command_init(&command)
    if command_decode(<const uint8_t*>record + sizeof(Record), record.length, &command) != OK:
        pass
    elif command.kind == COMMAND_PROCESS_END:
        _end(world, node, index, &command)
    elif command.kind == COMMAND_SESSION_OPEN and command.member != 0:
        named.session = command.id
        named.member = command.member
        named.boot = command.boot
        named.ended = 0
        if not world.truth.named.push(named):
            violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    command_release(&command)


cdef bint processes_are_ended(const World* world, uint64_t member, uint64_t boot, index_t applied) noexcept nogil:
    cdef const SimEndedProcess* ended
    cdef size_t i
    for i in range(world.truth.ended.size):
        ended = &world.truth.ended.data[i]
        if ended.member == member and ended.boot >= boot and ended.index <= applied:
            return True
    return False


cdef void processes_check(World* world, SimNode* node) noexcept nogil:
    cdef const SimNamedSession* named
    cdef size_t i
    for i in range(world.truth.named.size):
        named = &world.truth.named.data[i]
        if (named.ended != 0 and named.ended <= node.engine.applying.applied
                and machine_session_exists(node.engine.machine, named.session)):
            violate(world, VIOLATION_ENDED_ACTS, node.number, named.session, named.ended)


cdef void processes_release(World* world) noexcept nogil:
    world.truth.ended.release()
    world.truth.named.release()
