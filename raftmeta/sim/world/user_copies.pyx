"""A user machine in the world: real commands, tails, dumps and fetches; a chain of hashes is its object.

    I11  after the command at an index every copy has the same state, whether it ran all commands, began with a dump, or
         died in between; and a dump is what any other node would have made at its index
    I14  a command runs at one index only, the one that its caller was told; never, when it was told that it will not
It decides how late a copy is, and when it starts anew. It must never stand between the engine and the
commands: they pass through log, replicated machine, sealed files and fetches as in production. It does in C what
face/user_machine.py and user_machines/copy.py do in Python, where no world can run.
Sources: docs/replicated.md; docs/decisions/user-machines.md.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta._core cimport LEADER
from raftmeta.engine.engine cimport engine_submit
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.engine.submission cimport SUBMIT_USER_FETCH, Submission, submission_create, submission_payload
from raftmeta.engine.user_fetches cimport UserFetch, UserNews
from raftmeta.machine.state cimport LEVEL_OF_USER_MACHINES
from raftmeta.machine.user_machines cimport (UserCommand, UserMachine, user_command_bytes, user_dump_is_late,
                                             users_find)
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64, next_random
from raftmeta.raft.types cimport index_t
from raftmeta.sim.world.calls cimport call_submit, call_take
from raftmeta.sim.world.events cimport SIM_COPY
from raftmeta.sim.world.schedule cimport schedule_after
from raftmeta.sim.world.world_state cimport (CALL_USER, CALL_USER_DUMP, VIOLATION_FATAL, VIOLATION_NO_MEMORY,
                                             VIOLATION_NOT_ONCE, VIOLATION_SNAPSHOT, VIOLATION_STATE_HASH, SimCopy,
                                             SimImage, violate)
from raftmeta.status cimport OK, OUTCOME_UNKNOWN, RESULT_EVICTED
from raftmeta.wire.commands cimport COMMAND_USER, COMMAND_USER_DUMP, Command, command_encode, command_init
from raftmeta.wire.msgpack cimport Reader, read_array, read_uint, reader_over, unsigned_max

cdef enum:
    NAME_BYTES = 7              # "machine"
    RUN_US = 300                # mean time until a copy does what it was given
    SLOW_US = 400_000           # of one time in 32
    USUAL_BYTES = 100           # of a command
    LARGE_BYTES = 160 * 1024    # of user_large_ppm: some of them make a dump due (machine/user_machines)
    DUMP_BYTES_MAX = 6_000      # of the padding of a state
    PART_BYTES = 2_048          # of a dump, in one entry

cdef uint64_t NEVER = ~<uint64_t>0


cdef inline const uint8_t* _name() noexcept nogil:
    return <const uint8_t*>b"machine"


cdef inline UserMachine* _machine_of(const SimNode* node) noexcept nogil:
    return users_find(&node.engine.machine.users, _name(), NAME_BYTES)


# The state, then rubbish that follows from it: equal states make equal bytes.
cdef bint _draw_dump(const SimImage* image, Vec[uint8_t]* out) noexcept nogil:
    cdef uint64_t random = image.state
    cdef uint64_t words = next_random(&random) % (DUMP_BYTES_MAX // 8)
    cdef uint64_t word, _i
    out.clear()
    if not out.append(<const uint8_t*>image, sizeof(SimImage)):
        return False
    for _i in range(words):
        word = next_random(&random)
        if not out.append(<const uint8_t*>&word, 8):
            return False
    return True


# --- callers ----------------------------------------------------------------------------------------------------------
# The command's own fields are there; its envelope is the node's.
cdef bint _submit(World* world, SimNode* node, SimCall* call, Command* command) noexcept nogil:
    node.next_sequence += 1
    command.session = node.engine.session.id
    command.sequence = node.next_sequence
    command.lowest_unanswered = node.engine.calls.own.base
    command.name.data = _name()
    command.name.length = NAME_BYTES
    world.scratch.clear()
    if command_encode(command, &world.scratch) != OK:
        violate(world, VIOLATION_FATAL, node.number, 12, node.next_sequence)
        return False
    call_submit(world, node, call)
    return True


cdef bint copies_call(World* world, SimNode* node) noexcept nogil:
    cdef Command command
    cdef SimCall* call
    cdef uint64_t draw
    if (not world.config.has_users or node.engine.machine.feature_level < LEVEL_OF_USER_MACHINES
            or next_random(&world.random_users) % 8 != 0):
        return False
    draw = next_random(&world.random_users)
    call = call_take(world, node, CALL_USER)
    if call == NULL or not world.items.resize(LARGE_BYTES):
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return False
    call.number = draw
    memcpy(world.items.data, &draw, sizeof(draw))
    command_init(&command)
    command.kind = COMMAND_USER
    command.data.data = world.items.data
    command.data.length = 8 + <uint32_t>(draw >> 32) % USUAL_BYTES
    if draw % 1_000_000 < world.config.user_large_ppm:
        command.data.length = LARGE_BYTES
    return _submit(world, node, call, &command)


# The command ran, was answered, or certainly never runs: all who say where must say the same.
cdef void _tell(World* world, const SimNode* node, uint64_t number, index_t index) noexcept nogil:
    cdef uint64_t* told = world.truth.user_commands.insert(number)
    if told == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    elif told[0] == 0:
        told[0] = index
    elif told[0] != index:
        violate(world, VIOLATION_NOT_ONCE, node.number, index, told[0])


# Where the command stands for the first time: a repetition of it has the first one's answer.
cdef bint _index_of(const uint8_t* body, uint32_t length, uint64_t* index) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    read_array(&reader, 3)
    read_uint(&reader, unsigned_max())
    read_uint(&reader, unsigned_max())
    index[0] = read_uint(&reader, unsigned_max())
    return reader.status == OK


cdef void copies_answered(World* world, SimNode* node, const SimCall* call, status_t status, const uint8_t* body,
                          uint32_t length) noexcept nogil:
    cdef uint64_t index
    if call.kind == CALL_USER_DUMP:
        node.copy.is_sending = False
    elif status == OK:
        world.counts.user_calls += 1
        if _index_of(body, length, &index):
            _tell(world, node, call.number, index)
        else:
            violate(world, VIOLATION_FATAL, node.number, 13, length)
    elif status != OUTCOME_UNKNOWN and status != RESULT_EVICTED:
        _tell(world, node, call.number, NEVER)


# --- the copy ---------------------------------------------------------------------------------------------------------
cdef void copies_fetched(World* world, SimNode* node, status_t status, const uint8_t* body,
                         uint32_t length) noexcept nogil:
    cdef uint64_t wait_us = RUN_US
    node.copy.is_fetching = status == OK        # else the node ends
    if status != OK:
        return
    node.copy.news.clear()
    if not node.copy.news.append(body, length):
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    if next_random(&world.random_users) % 32 == 0:
        wait_us = SLOW_US
    schedule_after(world, SIM_COPY, node.number, node.life, wait_us, &world.random_users)


cdef void _check_state(World* world, const SimNode* node, index_t index, uint64_t state) noexcept nogil:
    cdef uint64_t* seen = world.truth.user_states.insert(index)
    if seen == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    elif seen[0] == 0:
        seen[0] = state
    elif seen[0] != state:
        violate(world, VIOLATION_STATE_HASH, node.number, index, state)


cdef void _run(World* world, SimNode* node, const UserCommand* head, index_t point) noexcept nogil:
    cdef SimCopy* copy = &node.copy
    cdef const uint8_t* data = <const uint8_t*>head + sizeof(UserCommand)
    cdef uint64_t number
    if head.index <= copy.pointer or head.length < sizeof(number):
        violate(world, VIOLATION_NOT_ONCE, node.number, head.index, copy.pointer)
        return
    memcpy(&number, data, sizeof(number))
    copy.image.state = hash64(copy.image.state ^ head.index, data, head.length) | 1
    copy.image.count += 1
    copy.pointer = head.index
    world.counts.user_commands += 1
    _tell(world, node, number, head.index)
    _check_state(world, node, head.index, copy.image.state)
    if head.index == point:
        copy.made = copy.image
        copy.made_pointer = point


cdef void _run_all(World* world, SimNode* node, const uint8_t* at, const uint8_t* end, index_t point) noexcept nogil:
    while at < end:
        _run(world, node, <const UserCommand*>at, point)
        at += user_command_bytes((<const UserCommand*>at).length)


cdef void _load(World* world, SimNode* node, const UserNews* news) noexcept nogil:
    cdef SimCopy* copy = &node.copy
    memcpy(&copy.image, copy.loading.data, sizeof(SimImage))
    copy.pointer = news.dump_index
    copy.made_pointer = 0
    world.counts.user_loads += 1
    _check_state(world, node, news.dump_index, copy.image.state)
    if not _draw_dump(&copy.image, &world.items):
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    elif (copy.image.state != news.dump_digest or world.items.size != copy.loading.size
            or hash64(0, world.items.data, world.items.size) != hash64(0, copy.loading.data, copy.loading.size)):
        violate(world, VIOLATION_SNAPSHOT, node.number, news.dump_index, copy.image.state)
    copy.loading.clear()


cdef void _take_dump(World* world, SimNode* node, const UserNews* news, const uint8_t* part,
                     size_t length) noexcept nogil:
    cdef SimCopy* copy = &node.copy
    if news.dump_index != copy.dump_seen or news.offset != copy.loading.size:
        copy.loading.clear()
        copy.dump_seen = news.dump_index
        if news.offset != 0:
            return              # ask again, from its beginning
    if not copy.loading.append(part, length):
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    elif copy.loading.size >= news.dump_total:
        _load(world, node, news)


# Another dump was adopted: a copy that made one there has the same.
cdef void _see_dump(World* world, SimNode* node, const UserNews* news) noexcept nogil:
    cdef SimCopy* copy = &node.copy
    if news.dump_index == copy.dump_seen:
        return
    copy.dump_seen = news.dump_index
    if copy.made_pointer == news.dump_index and copy.made.state != news.dump_digest:
        violate(world, VIOLATION_STATE_HASH, node.number, news.dump_index, copy.made.state)
    copy.made_pointer = 0


cdef void copies_run(World* world, SimNode* node) noexcept nogil:
    cdef SimCopy* copy = &node.copy
    cdef UserNews news
    cdef const uint8_t* at
    cdef const uint8_t* end = copy.news.data + copy.news.size
    if next_random(&world.random_users) % 64 == 0:      # closed, and opened again in the same process
        copies_forget(node)
    else:
        memcpy(&news, copy.news.data, sizeof(UserNews))
        at = copy.news.data + sizeof(UserNews) + news.ask_bytes
        if news.gives_dump:
            _take_dump(world, node, &news, at, end - at)
        else:
            _see_dump(world, node, &news)
            _run_all(world, node, at, end, news.point)
    copy.is_fetching = False


# --- what it asks of the engine ---------------------------------------------------------------------------------------
cdef void _fetch(World* world, SimNode* node) noexcept nogil:
    cdef Submission* submission = submission_create(SUBMIT_USER_FETCH, sizeof(UserFetch) + NAME_BYTES)
    cdef UserFetch* fetch = <UserFetch*>submission_payload(submission)
    if submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    submission.owner = &node.copy
    fetch.after = node.copy.pointer
    fetch.dump_seen = node.copy.dump_seen
    fetch.offset = node.copy.loading.size
    memcpy(<uint8_t*>fetch + sizeof(UserFetch), _name(), NAME_BYTES)
    node.copy.is_fetching = True
    engine_submit(node.engine, submission)


cdef void _send_part(World* world, SimNode* node, uint64_t offset) noexcept nogil:
    cdef Command command
    cdef SimCall* call
    if not _draw_dump(&node.copy.made, &world.items):
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    if offset >= world.items.size:
        return
    call = call_take(world, node, CALL_USER_DUMP)
    if call == NULL:
        return
    command_init(&command)
    command.kind = COMMAND_USER_DUMP
    command.id = node.copy.made.state
    command.pointer = node.copy.made_pointer
    command.offset = offset
    command.total = world.items.size
    command.data.data = world.items.data + offset
    command.data.length = <uint32_t>min(<uint64_t>PART_BYTES, world.items.size - offset)
    node.copy.is_sending = _submit(world, node, call, &command)


cdef void copies_look(World* world, SimNode* node) noexcept nogil:
    cdef UserMachine* machine
    if not world.config.has_users or node.engine.state != ENGINE_RUNNING:
        return
    if not node.copy.is_fetching:
        _fetch(world, node)
    if node.copy.made_pointer == 0 or node.copy.is_sending or node.engine.session.id == 0:
        return
    machine = _machine_of(node)
    if (machine != NULL and machine.point == node.copy.made_pointer
            and (node.engine.core_status.role == LEADER or user_dump_is_late(machine))):
        _send_part(world, node, machine.staged.bytes)


# --- life -------------------------------------------------------------------------------------------------------------
cdef bint copies_are_done(const World* world, const SimNode* node) noexcept nogil:
    cdef UserMachine* machine = _machine_of(node) if world.config.has_users else NULL
    return machine == NULL or node.copy.pointer == machine.last


cdef void copies_forget(SimNode* node) noexcept nogil:
    node.copy.news.release()
    node.copy.loading.release()
    memset(&node.copy, 0, sizeof(SimCopy))


cdef void copies_release(World* world) noexcept nogil:
    cdef uint32_t number
    for number in range(world.config.nodes):
        copies_forget(&world.nodes[number])
    world.truth.user_states.release()
    world.truth.user_commands.release()
