"""User machines: bodies.

Commands of a tail stand one behind the other in chunks; their hashes are added to the sum when they come and taken
out when a dump makes them needless, so that two nodes with the same sum have the same tails.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from raftmeta.machine.state_hash cimport hash_minus, hash_plus
from raftmeta.native.chunks cimport Chunk, chunk_create, chunk_drop
from raftmeta.native.intrinsics cimport hash64, hash128
from raftmeta.raft.types cimport Record, index_t
from raftmeta.status cimport (BAD_FIELD, COMMAND_INVALID, COMPARE_FAILED, NO_MEMORY, OK, OVERLOADED,
                              TOO_MANY_MACHINES)

cdef enum:
    # Keep the hashes of the parts apart.
    FORMAT_MACHINE_SEED = 0x05e41
    FORMAT_TAIL_SEED = 0x05e42
    TUNE_BLOCK_BYTES = 64 * 1024

# The part of a user machine that the state hash covers, beside its tail.
cdef packed struct MachineImage:
    uint64_t name_hash
    uint64_t last
    uint64_t point
    uint64_t point_bytes
    uint64_t dump_index
    uint64_t dump_digest
    uint64_t dump_total
    uint64_t dump_low
    uint64_t dump_high
    uint64_t staged_digest
    uint64_t staged_total
    uint64_t staged_low
    uint64_t staged_high


# --- the state hash ---------------------------------------------------------------------------------------------------
cdef void _hash_out(UserMachines* users, const UserMachine* machine) noexcept nogil:
    users.hash = hash_minus(users.hash, machine.addend)

cdef void _hash_in(UserMachines* users, UserMachine* machine) noexcept nogil:
    cdef MachineImage image
    image.name_hash = hash64(FORMAT_MACHINE_SEED, machine.name, machine.name_length)
    image.last = machine.last
    image.point = machine.point
    image.point_bytes = machine.point_bytes
    image.dump_index = machine.dump.index
    image.dump_digest = machine.dump.digest
    image.dump_total = machine.dump.total
    image.dump_low = machine.dump.hash.low
    image.dump_high = machine.dump.hash.high
    image.staged_digest = machine.staged.digest
    image.staged_total = machine.staged.total
    image.staged_low = machine.staged.hash.low
    image.staged_high = machine.staged.hash.high
    machine.addend = hash128(FORMAT_MACHINE_SEED, &image, sizeof(MachineImage))
    users.hash = hash_plus(users.hash, machine.addend)

cdef Hash128 _command_hash(const UserMachine* machine, const uint8_t* head) noexcept nogil:
    return hash128(hash64(FORMAT_TAIL_SEED, machine.name, machine.name_length), head,
                   sizeof(UserCommand) + (<const UserCommand*>head).length)


# --- memory -----------------------------------------------------------------------------------------------------------
cdef void _clear_dump(UserDump* dump) noexcept nogil:
    cdef size_t i
    for i in range(dump.parts.size):
        chunk_drop(dump.parts.data[i])
    dump.parts.release()
    memset(dump, 0, sizeof(UserDump))

cdef void users_release(UserMachines* users) noexcept nogil:
    cdef UserMachine* machine
    while users.machines.size > 0:
        machine = users.machines.back()
        _clear_dump(&machine.dump)
        _clear_dump(&machine.staged)
        while machine.tail.size > 0:
            chunk_drop(machine.tail.front().chunk)
            machine.tail.pop_front()
        machine.tail.release()
        free(machine)
        users.machines.pop()
    users.machines.release()


# --- machines ---------------------------------------------------------------------------------------------------------
cdef UserMachine* users_find(const UserMachines* users, const uint8_t* name, uint32_t length) noexcept nogil:
    cdef UserMachine* machine
    cdef size_t i
    for i in range(users.machines.size):
        machine = users.machines.data[i]
        if machine.name_length == length and memcmp(machine.name, name, length) == 0:
            return machine
    return NULL

cdef status_t _create(UserMachines* users, const uint8_t* name, uint32_t length, UserMachine** made) noexcept nogil:
    cdef UserMachine* machine
    if length == 0 or length > FORMAT_MACHINE_NAME_BYTES_MAX:
        return COMMAND_INVALID
    if users.machines.size == FORMAT_MACHINES_MAX:
        return TOO_MANY_MACHINES
    machine = <UserMachine*>calloc(1, sizeof(UserMachine))
    if machine == NULL or not users.machines.push(machine):
        free(machine)
        return NO_MEMORY
    machine.name_length = <uint8_t>length
    memcpy(machine.name, name, length)
    _hash_in(users, machine)
    made[0] = machine
    return OK


# --- the tail ---------------------------------------------------------------------------------------------------------
cdef inline uint64_t _tail_bytes_max(const UserMachine* machine) noexcept nogil:
    return <uint64_t>FORMAT_TAIL_BYTES_MAX + 2 * machine.dump.total

cdef bint _dump_is_due(const UserMachine* machine) noexcept nogil:
    if machine.point != 0:          # nobody sent the dump: a later one leaves less to be run again
        return machine.tail_bytes >= 2 * machine.point_bytes
    return (machine.tail_bytes >= max(<uint64_t>FORMAT_DUMP_AFTER_BYTES, machine.dump.total)
            or machine.tail_count >= FORMAT_DUMP_AFTER_COMMANDS * (1 + (machine.dump.total >> 20)))

# Where the next command of so many bytes goes; NULL: no memory.
cdef uint8_t* _room(UserMachine* machine, index_t index, uint64_t length) noexcept nogil:
    cdef TailBlock block
    cdef Chunk* chunk = machine.tail.back().chunk if machine.tail.size > 0 else NULL
    if chunk == NULL or chunk.capacity - chunk.used < length:
        block.chunk = chunk = chunk_create(<uint32_t>max(<uint64_t>TUNE_BLOCK_BYTES, length))
        block.first = index
        if chunk == NULL:
            return NULL
        if not machine.tail.push(block):
            chunk_drop(chunk)
            return NULL
    chunk.used += <uint32_t>length
    return chunk.bytes() + chunk.used - length

cdef status_t _append(UserMachines* users, UserMachine* machine, const UserCommand* head,
                      const uint8_t* data) noexcept nogil:
    cdef uint64_t length = user_command_bytes(head.length)
    cdef uint8_t* place = _room(machine, head.index, length)
    if place == NULL:
        return NO_MEMORY
    memset(place + length - 8, 0, 8)            # the padding
    memcpy(place, head, sizeof(UserCommand))
    if head.length > 0:
        memcpy(place + sizeof(UserCommand), data, head.length)
    users.hash = hash_plus(users.hash, _command_hash(machine, place))
    machine.tail_bytes += length
    machine.tail_count += 1
    machine.last = head.index
    return OK

cdef status_t users_command(UserMachines* users, const Command* command, const Record* record) noexcept nogil:
    cdef UserMachine* machine = users_find(users, command.name.data, command.name.length)
    cdef UserCommand head
    cdef status_t status = OK
    if machine == NULL:
        status = _create(users, command.name.data, command.name.length, &machine)
    if status != OK:
        return status
    if machine.tail_bytes + user_command_bytes(command.data.length) > _tail_bytes_max(machine):
        return OVERLOADED
    head.index = record.index
    head.session = command.session
    head.sequence = command.sequence
    head.lowest_unanswered = command.lowest_unanswered
    head.wall_ms = record.wall_ms
    head.length = command.data.length
    _hash_out(users, machine)
    status = _append(users, machine, &head, command.data.data)
    if status == OK and _dump_is_due(machine):
        _clear_dump(&machine.staged)
        machine.point = head.index
        machine.point_bytes = machine.tail_bytes
    _hash_in(users, machine)
    return status

# Commands up to index are in the dump now.
cdef void _drop_tail(UserMachines* users, UserMachine* machine, index_t index) noexcept nogil:
    cdef const uint8_t* head
    cdef uint64_t length
    while machine.tail.size > 0:
        if machine.tail_start == machine.tail.front().chunk.used:
            chunk_drop(machine.tail.front().chunk)
            machine.tail.pop_front()
            machine.tail_start = 0
            continue
        head = machine.tail.front().chunk.bytes() + machine.tail_start
        if (<const UserCommand*>head).index > index:
            return
        length = user_command_bytes((<const UserCommand*>head).length)
        users.hash = hash_minus(users.hash, _command_hash(machine, head))
        machine.tail_bytes -= length
        machine.tail_count -= 1
        machine.tail_start += <uint32_t>length

cdef bint users_take(UserMachine* machine, index_t after, size_t bytes_max, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t position = machine.tail.size
    cdef size_t end = out.size + bytes_max
    cdef const uint8_t* head
    cdef uint32_t offset
    cdef uint64_t length
    cdef bint is_empty = True
    # From the end: a copy is seldom more than a block behind.
    while position > 0 and machine.tail.at(position - 1).first > after + 1:
        position -= 1
    position -= position > 0
    while position < machine.tail.size:
        offset = machine.tail_start if position == 0 else 0
        while offset < machine.tail.at(position).chunk.used:
            head = machine.tail.at(position).chunk.bytes() + offset
            length = user_command_bytes((<const UserCommand*>head).length)
            offset += <uint32_t>length
            if (<const UserCommand*>head).index <= after:
                continue
            if not is_empty and out.size + length > end:
                return True
            if not out.append(head, length):
                return False
            is_empty = False
        position += 1
    return True


# --- dumps ------------------------------------------------------------------------------------------------------------
cdef bint user_dump_is_late(const UserMachine* machine) noexcept nogil:
    return machine.point != 0 and machine.tail_bytes - machine.point_bytes > machine.point_bytes // 2

cdef status_t _add_part(UserDump* dump, const Bytes* part) noexcept nogil:
    cdef Chunk* chunk = chunk_create(<uint32_t>part.length)
    if chunk == NULL:
        return NO_MEMORY
    if not dump.parts.push(chunk):
        chunk_drop(chunk)
        return NO_MEMORY
    memcpy(chunk.bytes(), part.data, part.length)
    chunk.used = part.length
    dump.bytes += part.length
    dump.hash = hash128(dump.hash.low ^ dump.hash.high, chunk.bytes(), chunk.used)
    return OK

cdef status_t users_dump_part(UserMachines* users, const Command* command, uint64_t* staged) noexcept nogil:
    cdef UserMachine* machine = users_find(users, command.name.data, command.name.length)
    cdef UserDump* dump
    cdef status_t status = OK
    if machine == NULL or machine.point == 0 or command.pointer != machine.point:
        return COMPARE_FAILED
    if command.data.length == 0 or command.total > FORMAT_USER_DUMP_BYTES_MAX:
        return COMMAND_INVALID
    dump = &machine.staged
    if dump.index != 0 and (dump.digest != command.id or dump.total != command.total) or command.offset > dump.bytes:
        return COMPARE_FAILED
    if command.offset == dump.bytes:            # else it stands there already, by another sender
        if dump.bytes + command.data.length > command.total:
            return COMMAND_INVALID
        _hash_out(users, machine)
        dump.index = command.pointer
        dump.digest = command.id
        dump.total = command.total
        status = _add_part(dump, &command.data)
        if status == OK and dump.bytes == dump.total:
            _adopt(users, machine)
        _hash_in(users, machine)
    staged[0] = dump.bytes if machine.point != 0 else command.total
    return status

# The staged dump is whole: it takes the place of the old one and of the commands that are in it.
cdef void _adopt(UserMachines* users, UserMachine* machine) noexcept nogil:
    _clear_dump(&machine.dump)
    machine.dump = machine.staged
    memset(&machine.staged, 0, sizeof(UserDump))
    machine.point = machine.point_bytes = 0
    _drop_tail(users, machine, machine.dump.index)


# --- loading ----------------------------------------------------------------------------------------------------------
cdef bint _is_sound(const UserMachine* image) noexcept nogil:
    if image.dump.total > FORMAT_USER_DUMP_BYTES_MAX or image.staged.total > FORMAT_USER_DUMP_BYTES_MAX:
        return False
    if (image.dump.index == 0) != (image.dump.total == 0) or (image.staged.index == 0) != (image.staged.total == 0):
        return False
    if image.point == 0:
        return image.staged.index == 0 and image.point_bytes == 0
    return image.point > image.dump.index and image.staged.index in (0, image.point)

cdef status_t users_restore(UserMachines* users, const UserMachine* image) noexcept nogil:
    cdef UserMachine* machine = NULL
    cdef status_t status
    if users_find(users, image.name, image.name_length) != NULL or not _is_sound(image):
        return BAD_FIELD
    status = _create(users, image.name, image.name_length, &machine)
    if status != OK:
        return status if status == NO_MEMORY else <status_t>BAD_FIELD
    _hash_out(users, machine)
    machine.point = image.point
    machine.point_bytes = image.point_bytes
    machine.last = image.dump.index
    machine.dump.index = image.dump.index
    machine.dump.digest = image.dump.digest
    machine.dump.total = image.dump.total
    machine.staged.index = image.staged.index
    machine.staged.digest = image.staged.digest
    machine.staged.total = image.staged.total
    _hash_in(users, machine)
    return OK

cdef status_t users_restore_part(UserMachines* users, bint is_staged, const Bytes* part) noexcept nogil:
    cdef UserMachine* machine = users.machines.back() if users.machines.size > 0 else NULL
    cdef UserDump* dump
    cdef status_t status
    if machine == NULL or machine.tail_count > 0 or part.length == 0:
        return BAD_FIELD
    dump = &machine.staged if is_staged else &machine.dump
    if dump.bytes + part.length > dump.total:
        return BAD_FIELD
    _hash_out(users, machine)
    status = _add_part(dump, part)
    _hash_in(users, machine)
    return status

cdef status_t users_restore_command(UserMachines* users, const UserCommand* head,
                                    const uint8_t* data) noexcept nogil:
    cdef UserMachine* machine = users.machines.back() if users.machines.size > 0 else NULL
    cdef status_t status
    if machine == NULL or head.index <= machine.last:
        return BAD_FIELD
    _hash_out(users, machine)
    status = _append(users, machine, head, data)
    _hash_in(users, machine)
    return status

cdef bint users_are_whole(const UserMachines* users) noexcept nogil:
    cdef UserMachine* machine
    cdef size_t i
    for i in range(users.machines.size):
        machine = users.machines.data[i]
        if machine.dump.bytes != machine.dump.total or machine.last < machine.point:
            return False
        if machine.staged.index != 0 and machine.staged.bytes >= machine.staged.total:
            return False
    return True
