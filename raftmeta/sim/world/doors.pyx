"""Doors: bodies.

A door draws its requests with a look at the model's tree, so that most of them find what they name; the model may be
ahead or behind. It must never wait, or look at a node's state.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.engine.engine cimport engine_submit
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.engine.submission cimport SUBMIT_CLIENT_COMMAND, Submission, submission_create, submission_payload
from raftmeta.machine.state cimport LEVEL_OF_RIGHTS, LEVEL_OF_ZNODES
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport next_random
from raftmeta.sim.world.calls cimport call_take
from raftmeta.sim.world.principals cimport principals_speak
from raftmeta.sim.world.world_state cimport (CALL_DOOR, VIOLATION_FATAL, VIOLATION_NO_MEMORY, VIOLATION_OUTCOME_LOST,
                                             violate)
from raftmeta.sim.world.znodes_model cimport znodes_compare
from raftmeta.sim.world.znodes_rules cimport rules_lease, rules_root_length
from raftmeta.sim.world.znodes_state cimport (DOOR_LEASE, DOOR_NATIVE, DOOR_OPEN, DOOR_ZNODES, SIM_CONTAINER,
                                              SIM_DOOR_OPS, SIM_DOOR_SESSIONS, SIM_DOOR_WINDOW, SIM_DOORS,
                                              SIM_EPHEMERAL, SIM_OWNERS, SIM_PERSISTENT, SIM_TTL, SIM_ZNODE_KEY_MAX,
                                              SIM_ZNODE_LIST_MAX, SimDoor, SimDoorCommand, SimDoorOwner, SimZnode)
from raftmeta.status cimport OK, OUT_OF_ORDER, RESULT_EVICTED, SESSION_UNKNOWN
from raftmeta.wire.commands cimport (COMMAND_KEYS, COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE, COMMAND_LEASE_REVOKE,
                                     COMMAND_SESSION_OPEN, COMMAND_ZNODES, OP_ADD, OP_DELETE, OP_DELETE_RANGE, OP_PUT,
                                     Bytes, Command, LeaseItem, Op, Txn, command_clear, command_encode)
from raftmeta.wire.znodes cimport (ZNODE_CHECK, ZNODE_CREATE, ZNODE_DELETE, ZNODE_SET_ACL, ZNODE_SET_DATA, Identity,
                                   ZnodeOp, znodes_encode)

cdef enum:
    RESULTS_MAX = 32            # below this the number stands in replicated results (raftmeta/status.pxd)
    SENDINGS_OPEN_MAX = 48
    SESSION_WINDOW = 4 * SIM_DOOR_WINDOW
    ZNODES_MAX = 40             # above it doors rather delete
    PATH_MAX = 40               # room is left for the digits of a number
    TTL_MS_MIN = 100

cdef uint64_t FOREVER_MS = <uint64_t>1 << 40       # the sessions of doors end when somebody ends them
cdef uint64_t SILENCE_NS = 2_500_000_000           # longer than any lease of an owner

# Where the bytes of one request stand until it is encoded.
cdef struct Texts:
    uint8_t[SIM_DOOR_OPS * SIM_ZNODE_KEY_MAX] paths
    uint64_t[SIM_DOOR_OPS] values
    uint8_t[SIM_DOOR_OPS * SIM_ZNODE_LIST_MAX] lists
    uint8_t[4] name             # of the owner, as an identity


cdef inline uint64_t _draw(World* world) noexcept nogil:
    return next_random(&world.random_znodes)


cdef Bytes _text(const char* text, uint32_t length) noexcept nogil:
    cdef Bytes window
    window.data = <const uint8_t*>text
    window.length = length
    return window


# --- what is asked for ------------------------------------------------------------------------------------------------
# One root is the default, the other is asked for at times.
cdef Bytes _root(uint64_t draw) noexcept nogil:
    return _text(b"z", 1) if draw % 8 == 0 else _text(b"zookeeper", 9)


# A znode of this root, or a znode that nobody has: NULL.
cdef const SimZnode* _any(World* world, const Bytes* root, uint64_t draw) noexcept nogil:
    cdef const SimZnode* node
    cdef size_t i
    for i in range(world.znodes.nodes.size):
        node = &world.znodes.nodes.data[(draw + i) % world.znodes.nodes.size]
        if rules_root_length(node.key, node.length) == root.length:
            return node
    return NULL


cdef uint32_t _name(uint64_t draw, uint8_t* into) noexcept nogil:
    into[0] = c'/'
    into[1] = <uint8_t>(c'a' + draw % 6)
    return 2


# The path of a znode that is there, mostly, or of any one.
cdef uint32_t _path(World* world, const Bytes* root, uint8_t* into) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef const SimZnode* node = _any(world, root, draw >> 8) if draw & 7 else NULL
    cdef uint32_t length = 0
    if node != NULL and node.length - root.length <= <uint32_t>PATH_MAX:
        length = node.length - root.length
        memcpy(into, node.key + root.length, length)
        return length
    if root.length == 1 and draw >> 40 & 7 == 0:
        into[0] = c'/'              # of the other root: a plain key may stand where its tree would begin
        return 1
    length = _name(draw >> 16, into)
    return length + _name(draw >> 24, into + length) if draw >> 32 & 1 else length


# The path of a new child of a znode that is there.
cdef uint32_t _new_path(World* world, const Bytes* root, bint is_sequential, uint8_t* into) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t length = _path(world, root, into)
    if length == 1 or length > <uint32_t>PATH_MAX - 16 or draw >> 16 & 3 == 0:
        length = 0                  # below the root itself
    if is_sequential and draw & 3 == 0:
        into[length] = c'/'         # a name of digits alone
        return length + 1
    return length + _name(draw >> 8, into + length)


# [perms, scheme, name]: everybody or one owner, with some or all permissions. Mostly none: everybody may do everything.
cdef Bytes _list(World* world, uint8_t* into) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef Bytes list
    list.data = into
    list.length = 0
    if draw & 3:
        return list
    into[0] = 0x91
    into[1] = 0x93
    into[2] = <uint8_t>(31 if draw >> 8 & 1 else draw >> 16 & 31 | 1)
    if draw >> 32 & 1:
        memcpy(into + 3, b"\xc4\x05world\xc4\x06anyone", 15)
        list.length = 18
    else:
        memcpy(into + 3, b"\xc4\x06digest\xc4\x04u0:h", 14)
        into[14] = <uint8_t>(c'0' + (draw >> 40) % SIM_OWNERS)
        list.length = 17
    return list


cdef int32_t _version(World* world, const Bytes* root, const Bytes* path) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef size_t i
    cdef const SimZnode* node
    if draw & 3:
        return -1
    if draw & 4:
        return <int32_t>(draw >> 8 & 3)
    for i in range(world.znodes.nodes.size):
        node = &world.znodes.nodes.data[i]
        if node.length == root.length + path.length:
            return node.version     # of one of that length: often it is the one
    return 0


cdef void _create(World* world, const SimDoorOwner* owner, const Bytes* root, ZnodeOp* op,
                  uint8_t* path) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    op.kind = ZNODE_CREATE
    op.is_sequential = draw % 3 == 0
    if op.is_sequential:
        op.width = 10 if draw >> 8 & 3 else 4
    op.path.length = _new_path(world, root, op.is_sequential, path)
    op.node_kind = SIM_PERSISTENT
    if draw >> 16 & 3 == 0 and owner.lease != 0:
        op.node_kind = SIM_EPHEMERAL
    elif draw >> 16 & 15 in (1, 5):
        op.node_kind = SIM_CONTAINER
    elif draw >> 16 & 15 in (2, 3):
        op.node_kind = SIM_TTL
        op.ttl_ms = TTL_MS_MIN + (draw >> 24 & 2047)


cdef void _operation(World* world, const SimDoorOwner* owner, const Bytes* root, ZnodeOp* op, Texts* texts,
                     uint32_t place) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint8_t* path = texts.paths + place * SIM_ZNODE_KEY_MAX
    cdef uint32_t choice = <uint32_t>(draw % 16)
    memset(op, 0, sizeof(ZnodeOp))
    op.path.data = path
    if choice < (7 if world.znodes.nodes.size < <size_t>ZNODES_MAX else 1):
        _create(world, owner, root, op, path)
    else:
        op.path.length = _path(world, root, path)
        if choice < 10:
            op.kind = ZNODE_DELETE
        elif choice < 13:
            op.kind = ZNODE_SET_DATA
        elif choice < 14 and op.path.length > 1:
            op.kind = ZNODE_SET_ACL
        else:
            op.kind = ZNODE_CHECK
        op.version = _version(world, root, &op.path)
    if op.kind == ZNODE_CREATE or op.kind == ZNODE_SET_ACL:
        op.acl = _list(world, texts.lists + place * SIM_ZNODE_LIST_MAX)
        op.has_acl = op.acl.length != 0     # rights cannot be set to none
    if op.kind == ZNODE_CREATE or op.kind == ZNODE_SET_DATA:
        texts.values[place] = draw
        op.data.data = <const uint8_t*>&texts.values[place]
        op.data.length = <uint32_t>sizeof(uint64_t) if draw >> 16 & 7 > 1 else <uint32_t>0
        op.has_data = draw >> 16 & 7 != 0


# At times the next operation is about the znode of the one before.
cdef void _same_again(World* world, const ZnodeOp* before, ZnodeOp* op) noexcept nogil:
    if before.kind == ZNODE_CREATE and not before.is_sequential and _draw(world) & 1:
        memset(op, 0, sizeof(ZnodeOp))
        op.kind = ZNODE_DELETE
        op.path = before.path
        op.version = -1


cdef bint _identify(World* world, Command* command, uint32_t owner, Texts* texts) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef Identity identity
    memcpy(texts.name, b"u0:h", 4)
    texts.name[1] += <uint8_t>owner
    identity.scheme = _text(b"digest", 6)
    identity.id = _text(<const char*>texts.name, 4)
    if draw & 3 and not command.identities.push(identity):
        return False
    identity.scheme = _text(b"super", 5)
    identity.id = _text(NULL, 0)
    return draw >> 8 & 15 != 0 or command.identities.push(identity)


cdef bint _ask(World* world, SimDoor* door, uint32_t owner, Command* command, Texts* texts) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t count = 1 if draw & 3 else 2 + <uint32_t>(draw >> 8) % (SIM_DOOR_OPS - 1)
    cdef uint32_t i
    cdef ZnodeOp op
    command.kind = COMMAND_ZNODES
    command.name = _root(draw >> 16)
    command.id = door.owners[owner].lease
    command.pointer = door.owners[owner].last
    command.is_multi = draw & 3 == 0
    for i in range(count):
        _operation(world, &door.owners[owner], &command.name, &op, texts, i)
        if i:
            _same_again(world, &command.znodes.data[i - 1], &op)
        if not command.znodes.push(op):
            return False
    if not _identify(world, command, owner, texts):
        return False
    world.znodes.scratch.clear()
    if znodes_encode(command.is_multi, command.identities.data, <uint32_t>command.identities.size, command.znodes.data,
                     <uint32_t>command.znodes.size, &world.znodes.scratch) != OK:
        return False
    command.data.data = world.znodes.scratch.data
    command.data.length = <uint32_t>world.znodes.scratch.size
    return True


# Somebody writes with the store's own verbs where znodes are, or beside them.
cdef bint _write(World* world, Command* command, Texts* texts) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef Bytes root = _root(draw >> 40)
    cdef uint32_t count = 2 if draw & 3 == 0 else 1
    cdef uint32_t i, kind
    cdef uint8_t* key
    cdef Op op
    cdef Txn txn
    command.kind = COMMAND_KEYS
    memset(&txn, 0, sizeof(Txn))
    txn.then_count = count
    if not command.txns.push(txn):
        return False
    for i in range(count):
        memset(&op, 0, sizeof(Op))
        key = texts.paths + 2 * i * SIM_ZNODE_KEY_MAX
        memcpy(key, root.data, root.length)
        op.key.data = key
        op.key.length = root.length + _path(world, &root, key + root.length)
        kind = <uint32_t>(draw >> (8 * (i + 1))) % 8
        op.kind = OP_PUT if kind < 3 else OP_DELETE
        if kind == 6 and count == 1:    # a value may be in its way, and then nothing else is done
            op.kind = OP_ADD
            op.number = 1
        elif kind == 7:             # a few names
            op.kind = OP_DELETE_RANGE
            op.end.data = texts.paths + (2 * i + 1) * SIM_ZNODE_KEY_MAX
            op.end.length = op.key.length
            memcpy(texts.paths + (2 * i + 1) * SIM_ZNODE_KEY_MAX, key, op.key.length)
            texts.paths[(2 * i + 1) * SIM_ZNODE_KEY_MAX + op.key.length - 1] += 2
        if op.kind == OP_PUT:
            texts.values[i] = draw
            op.value.data = <const uint8_t*>&texts.values[i]
            op.value.length = sizeof(uint64_t)
        if not command.ops.push(op):
            return False
    return True


# An owner without a lease asks for one; now and then one lets go of it.
cdef void _lease(World* world, SimDoorOwner* owner, Command* command) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    if owner.lease != 0:
        command.kind = COMMAND_LEASE_REVOKE
        command.id = owner.lease
        owner.lease = 0
        return
    owner.lease = draw >> 1 | 1
    command.kind = COMMAND_LEASE_GRANT
    command.id = owner.lease
    command.ttl_ms = 200 + draw % 1800


# --- commands ---------------------------------------------------------------------------------------------------------
cdef SimDoorCommand* _place(SimDoor* door, uint64_t sequence) noexcept nogil:
    return &door.commands[sequence % SIM_DOOR_WINDOW]


cdef uint64_t _lowest_unanswered(SimDoor* door) noexcept nogil:
    cdef uint64_t lowest = door.sequence + 1
    cdef uint32_t i
    for i in range(SIM_DOOR_WINDOW):
        if door.commands[i].payload.size != 0 and not door.commands[i].is_answered:
            lowest = min(lowest, door.commands[i].sequence)
    return lowest


cdef void _clear(SimDoorCommand* command) noexcept nogil:
    command.payload.clear()
    command.answer.clear()
    command.expected.clear()
    command.is_answered = command.is_judged = command.is_change = False


# Another life of the door: its owners keep their leases, and nobody waits for the answers of the last one.
cdef void _open(World* world, SimDoor* door, uint32_t number) noexcept nogil:
    cdef SimDoorCommand* fresh = &door.commands[0]
    cdef Command* command = &world.command
    cdef uint32_t i
    for i in range(SIM_DOOR_WINDOW):
        _clear(&door.commands[i])
    for i in range(SIM_OWNERS):
        door.owners[i].last = 0
    door.session = _draw(world) >> 2 | 1
    door.sequence = 0
    for i in range(SIM_DOOR_SESSIONS):
        if world.znodes.sessions[i].id == 0:
            world.znodes.sessions[i].id = door.session
            break
    fresh.sequence = 0
    fresh.wish = DOOR_OPEN
    fresh.door = number
    command_clear(command)
    command.kind = COMMAND_SESSION_OPEN
    command.id = door.session
    command.ttl_ms = FOREVER_MS
    command.window = SESSION_WINDOW
    if command_encode(command, &fresh.payload) != OK:
        violate(world, VIOLATION_FATAL, 0, 14, door.session)
    command_clear(command)


cdef bint _may_open(World* world) noexcept nogil:
    return world.znodes.sessions[SIM_DOOR_SESSIONS - 1].id == 0


# An answered command's place, whose answer was compared.
cdef bint _may_begin(SimDoor* door) noexcept nogil:
    cdef const SimDoorCommand* place = _place(door, door.sequence + 1)
    return ((place.payload.size == 0 or place.is_answered)
            and _lowest_unanswered(door) + SIM_DOOR_WINDOW > door.sequence + 1)


cdef SimDoorCommand* _begin(World* world, SimDoor* door, uint32_t number) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t owner = <uint32_t>(draw >> 32) % SIM_OWNERS
    cdef SimDoorCommand* fresh = _place(door, door.sequence + 1)
    cdef Command* command = &world.command
    cdef Texts texts
    cdef bint is_made = True
    command_clear(command)
    _clear(fresh)
    if (door.owners[owner].lease == 0 and draw & 3) or draw >> 8 & 63 == 0:
        fresh.wish = DOOR_LEASE
        _lease(world, &door.owners[owner], command)
    elif draw >> 16 & 15 == 0:
        fresh.wish = DOOR_NATIVE
        is_made = _write(world, command, &texts)
    else:
        fresh.wish = DOOR_ZNODES
        is_made = _ask(world, door, owner, command, &texts)
        door.owners[owner].last = door.sequence + 1
    door.told_answered = _lowest_unanswered(door)
    door.sequence += 1
    fresh.sequence = door.sequence
    fresh.door = number
    fresh.owner = owner
    command.session = door.session
    command.sequence = door.sequence
    command.lowest_unanswered = door.told_answered
    if not is_made or command_encode(command, &fresh.payload) != OK:
        violate(world, VIOLATION_FATAL, 0, 15, door.sequence)
    command_clear(command)
    return fresh


# --- sendings ---------------------------------------------------------------------------------------------------------
cdef SimNode* _some_node(World* world) noexcept nogil:
    cdef SimNode* node = &world.nodes[_draw(world) % world.config.nodes]
    if (not node.is_up or node.engine.state != ENGINE_RUNNING or node.paused_until_ns > world.now_ns
            or node.engine.machine.feature_level < LEVEL_OF_ZNODES or node.calls_open >= SENDINGS_OPEN_MAX):
        return NULL
    return node


cdef uint32_t _submit(World* world, SimNode* node, SimDoor* door, const Vec[uint8_t]* bytes, SimCall* call,
                      uint64_t sequence) noexcept nogil:
    cdef const Vec[uint8_t]* payload = bytes
    cdef Submission* submission
    if world.config.has_rights and node.engine.machine.feature_level >= LEVEL_OF_RIGHTS:
        if not principals_speak(bytes.data, bytes.size, &world.scratch):
            violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
            return 0
        payload = &world.scratch
    submission = submission_create(SUBMIT_CLIENT_COMMAND, payload.size)
    if submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return 0
    submission.owner = call
    submission.arguments.command.session = door.session
    submission.arguments.command.sequence = sequence
    memcpy(submission_payload(submission), payload.data, payload.size)
    engine_submit(node.engine, submission)
    return <uint32_t>1 << node.number


# To any node: its bit, or none.
cdef uint32_t _send(World* world, SimDoor* door, SimDoorCommand* command, uint32_t number) noexcept nogil:
    cdef SimNode* node = _some_node(world)
    cdef SimCall* call
    if node == NULL or command.payload.size == 0:
        return 0
    call = call_take(world, node, CALL_DOOR)
    if call == NULL:
        return 0
    call.key = <uint8_t>number
    call.session = door.session
    call.number = command.sequence
    world.counts.door_sendings += 1
    return _submit(world, node, door, &command.payload, call, command.sequence)


# For all owners whose clients were heard. Nobody waits for the answer.
cdef uint32_t _keep(World* world, SimDoor* door) noexcept nogil:
    cdef SimNode* node = _some_node(world)
    cdef Command* command = &world.command
    cdef LeaseItem item
    cdef uint32_t i
    if node == NULL:
        return 0
    command_clear(command)
    command.kind = COMMAND_LEASE_KEEP_ALIVE
    command.session = door.session
    item.deadline_ms = 0
    for i in range(SIM_OWNERS):
        item.lease = door.owners[i].lease
        if item.lease != 0 and door.owners[i].silent_until_ns <= world.now_ns and not command.leases.push(item):
            violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    world.znodes.scratch.clear()
    if command.leases.size == 0:
        return 0
    if command_encode(command, &world.znodes.scratch) != OK:
        violate(world, VIOLATION_FATAL, node.number, 16, door.session)
        return 0
    command_clear(command)
    return _submit(world, node, door, &world.znodes.scratch, NULL, 0)


# Owners fall silent, and find their leases gone; the next request of such an owner is refused.
cdef void _mind_owners(World* world, SimDoor* door) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef SimDoorOwner* owner = &door.owners[draw % SIM_OWNERS]
    if draw >> 8 & 1023 == 0:
        owner.silent_until_ns = world.now_ns + SILENCE_NS
    if draw >> 24 & 15 == 0 and owner.lease != 0 and rules_lease(&world.znodes, owner.lease) == NULL:
        owner.lease = 0


cdef uint32_t doors_act(World* world) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t number = <uint32_t>draw % SIM_DOORS
    cdef SimDoor* door = &world.doors[number]
    cdef uint32_t nodes = 0
    cdef uint32_t _i
    _mind_owners(world, door)
    if door.session == 0 or (draw >> 8 & 255 == 0 and _may_open(world)):
        _open(world, door, number)
        return _send(world, door, &door.commands[0], number)
    if door.commands[0].wish == DOOR_OPEN and not door.commands[0].is_answered:
        return _send(world, door, &door.commands[0], number)
    if draw >> 16 & 7 == 0:
        nodes |= _keep(world, door)
    if draw >> 24 & 3 == 0:             # what is not answered is sent again, and what is, at times
        for _i in range(SIM_DOOR_WINDOW):
            if not door.commands[_i].is_answered or draw >> 32 & 7 == 0:
                nodes |= _send(world, door, &door.commands[_i], number)
        return nodes
    for _i in range(1 + <uint32_t>(draw >> 40) % 4):
        if _may_begin(door):
            nodes |= _send(world, door, _begin(world, door, number), number)
    return nodes


# --- answers ----------------------------------------------------------------------------------------------------------
cdef void doors_done(World* world, SimNode* node, const SimCall* call, status_t status, uint64_t revision,
                     const uint8_t* body, uint32_t length) noexcept nogil:
    cdef SimDoor* door = &world.doors[call.key]
    cdef SimDoorCommand* command = _place(door, call.number)
    world.counts.door_out_of_order += status == OUT_OF_ORDER
    if door.session != call.session or command.sequence != call.number or command.payload.size == 0:
        return                      # an answer to what the door has done with
    if status == SESSION_UNKNOWN:   # it was not opened yet where this came from; nobody ends it
        return
    if status == RESULT_EVICTED:
        if call.number >= door.told_answered:
            violate(world, VIOLATION_OUTCOME_LOST, node.number, call.number, status)
        return
    if status >= RESULTS_MAX or command.is_answered:
        return                      # this sending's fate, or what is known
    command.is_answered = True
    command.status = status
    command.revision = revision
    command.answer.clear()
    if not command.answer.append(body, length):
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    znodes_compare(world, node.number, command)


cdef void doors_release(World* world) noexcept nogil:
    cdef uint32_t number, i
    for number in range(SIM_DOORS):
        for i in range(SIM_DOOR_WINDOW):
            world.doors[number].commands[i].payload.release()
            world.doors[number].commands[i].answer.release()
            world.doors[number].commands[i].expected.release()
