"""The log as a model of znodes takes it: bodies.

A command of a door is done once (its session keeps which were), in the order that `after` asks for. A lease is due when
the entry that ends it names the deadline that it has, on the lease clock of the log.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from raftmeta.native.intrinsics cimport hash64
from raftmeta.raft.types cimport ENTRY_COMMAND, Record
from raftmeta.sim.world.entries cimport entries_find
from raftmeta.sim.world.world_state cimport (VIOLATION_NO_MEMORY, VIOLATION_ZNODE_COUNTERS, VIOLATION_ZNODE_MODEL,
                                             VIOLATION_ZNODE_ORDER, VIOLATION_ZNODE_SEQUENCE, VIOLATION_ZNODE_ZXID,
                                             violate)
from raftmeta.sim.world.znodes_rules cimport (SimPlace, rules_end_lease, rules_end_time, rules_is_plain, rules_lease,
                                              rules_request, rules_settle)
from raftmeta.sim.world.znodes_state cimport (DOOR_NATIVE, DOOR_ZNODES, SIM_CONTAINER, SIM_DOOR_SESSIONS,
                                              SIM_DOOR_WINDOW, SIM_DOORS, SIM_TTL, SIM_ZNODE_KEY_MAX,
                                              SimDoorSession, SimOwnerLease, SimPlainKey, SimZnode, SimZnodeAnswer,
                                              SimZnodesModel, SimZxid)
from raftmeta.status cimport ID_CONFLICT, LEASE_EXPIRED, OK, ZNODE_REFUSED, ZNODE_WRITE, status_t
from raftmeta.wire.commands cimport (COMMAND_KEYS, COMMAND_LEASE_EXPIRE, COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE,
                                     COMMAND_LEASE_REVOKE, COMMAND_SESSION_OPEN, COMMAND_ZNODES, OP_ADD,
                                     OP_DELETE_RANGE, OP_PUT, SPEAKER_NONE, Command, LeaseItem, Op,
                                     command_decode, command_release)
from raftmeta.wire.msgpack cimport (Reader, read_array, read_array_max, read_bin, read_done, read_int, read_nil,
                                    read_uint, reader_over, unsigned_max)
from raftmeta.wire.znodes cimport ZNODE_CHECK, ZNODE_CREATE, ZNODE_DELETE, ZnodeStat

cdef enum:
    OPS_MAX = 16


# --- sessions ---------------------------------------------------------------------------------------------------------
cdef SimDoorSession* _session(SimZnodesModel* model, uint64_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(SIM_DOOR_SESSIONS):
        if id != 0 and model.sessions[i].id == id:
            return &model.sessions[i]
    return NULL


cdef bint _was_done(const SimDoorSession* session, uint64_t sequence) noexcept nogil:
    cdef size_t i
    if sequence < session.floor:
        return True
    for i in range(session.done.size):
        if session.done.data[i] == sequence:
            return True
    return False


cdef void _advance(SimDoorSession* session, uint64_t lowest) noexcept nogil:
    cdef size_t i, kept = 0
    if lowest <= session.floor:
        return
    session.floor = lowest
    for i in range(session.done.size):
        if session.done.data[i] >= lowest:
            session.done.data[kept] = session.done.data[i]
            kept += 1
    session.done.size = kept


# The place of the command in its door; NULL: the door has done with that session.
cdef SimDoorCommand* _waiting(World* world, uint64_t session, uint64_t sequence) noexcept nogil:
    cdef uint32_t number
    cdef SimDoorCommand* command
    for number in range(SIM_DOORS):
        if world.doors[number].session == session:
            command = &world.doors[number].commands[sequence % SIM_DOOR_WINDOW]
            if command.payload.size != 0 and command.sequence == sequence and not command.is_judged:
                return command
    return NULL


# --- native writes ----------------------------------------------------------------------------------------------------
cdef bint _is_between(const uint8_t* key, uint32_t length, const Op* op) noexcept nogil:
    cdef int low = memcmp(key, op.key.data, min(length, op.key.length))
    cdef int high
    if op.kind != OP_DELETE_RANGE:
        return length == op.key.length and low == 0
    if low < 0 or (low == 0 and length < op.key.length):
        return False
    if op.end.length == 0:
        return True
    high = memcmp(key, op.end.data, min(length, op.end.length))
    return high < 0 or (high == 0 and length < op.end.length)


cdef bint _touches_znodes(SimZnodesModel* model, const Op* op) noexcept nogil:
    cdef size_t i
    for i in range(model.nodes.size):
        if _is_between(model.nodes.data[i].key, model.nodes.data[i].length, op):
            return True
    return False


cdef void _write_plain(SimZnodesModel* model, const Op* op) noexcept nogil:
    cdef SimPlainKey plain
    cdef size_t i = 0
    if op.kind == OP_PUT or op.kind == OP_ADD:
        if not rules_is_plain(model, op.key.data, op.key.length):
            plain.length = op.key.length
            memcpy(plain.key, op.key.data, op.key.length)
            model.is_lost |= not model.plain.push(plain)
        return
    while i < model.plain.size:
        if _is_between(model.plain.data[i].key, model.plain.data[i].length, op):
            model.plain.data[i] = model.plain.back()
            model.plain.pop()
        else:
            i += 1


# A door's native commands are one transaction without a branch. ZNODE_WRITE: it touches a znode, so nothing is done.
cdef status_t _native(World* world, SimZnodesModel* model) noexcept nogil:
    cdef const Command* command = &model.command
    cdef size_t i
    for i in range(command.ops.size):
        if _touches_znodes(model, &command.ops.data[i]):
            world.counts.znode_writes_refused += 1
            return ZNODE_WRITE
    for i in range(command.ops.size):
        _write_plain(model, &command.ops.data[i])
    return OK


# --- leases -----------------------------------------------------------------------------------------------------------
cdef status_t _grant(SimZnodesModel* model) noexcept nogil:
    cdef SimOwnerLease lease
    if rules_lease(model, model.command.id) != NULL:
        return ID_CONFLICT
    lease.id = model.command.id
    lease.ttl_ms = model.command.ttl_ms
    lease.deadline_ms = model.lease_ms + lease.ttl_ms
    model.is_lost |= not model.leases.push(lease)
    return OK


cdef status_t _revoke(World* world, SimZnodesModel* model, SimPlace place) noexcept nogil:
    if rules_lease(model, model.command.id) == NULL:
        return LEASE_EXPIRED
    world.counts.znode_owners_ended += 1
    rules_end_lease(model, model.command.id, place)
    rules_settle(model, place)
    return OK


cdef void _keep(SimZnodesModel* model) noexcept nogil:
    cdef SimOwnerLease* lease
    cdef size_t i
    for i in range(model.command.leases.size):
        lease = rules_lease(model, model.command.leases.data[i].lease)
        if lease != NULL:
            lease.deadline_ms = model.lease_ms + lease.ttl_ms


# The znode with this lease of its own. No node may have shown the lease yet: then its deadline says whose it is.
cdef SimZnode* _timed(SimZnodesModel* model, const LeaseItem* item) noexcept nogil:
    cdef SimZnode* found = NULL
    cdef SimZnode* node
    cdef size_t i
    for i in range(model.nodes.size):
        node = &model.nodes.data[i]
        if node.deadline_ms != 0 and node.lease == item.lease:
            return node
    for i in range(model.nodes.size):
        node = &model.nodes.data[i]
        if node.deadline_ms == item.deadline_ms and node.lease == 0:
            model.is_lost |= found != NULL
            found = node
    return found


cdef void _expire(World* world, SimZnodesModel* model, SimPlace place) noexcept nogil:
    cdef const LeaseItem* item
    cdef SimOwnerLease* lease
    cdef SimZnode* node
    cdef size_t i
    model.before.clear()
    model.is_lost |= not model.before.append(model.nodes.data, model.nodes.size)
    for i in range(model.command.leases.size):
        item = &model.command.leases.data[i]
        if item.deadline_ms > model.lease_ms:
            continue
        lease = rules_lease(model, item.lease)
        node = _timed(model, item) if lease == NULL else NULL
        if lease != NULL and lease.deadline_ms == item.deadline_ms:
            world.counts.znode_owners_ended += 1
            rules_end_lease(model, item.lease, place)
        elif node != NULL and node.deadline_ms == item.deadline_ms:
            world.counts.znodes_renewed += node.children != 0
            world.counts.znodes_timed_out += node.children == 0
            world.counts.znodes_containers_ended += node.children == 0 and node.kind == SIM_CONTAINER
            node.lease = item.lease
            rules_end_time(model, node, place)
    rules_settle(model, place)


# --- the log ----------------------------------------------------------------------------------------------------------
# The entry that was taken made a revision.
cdef void _note_change(World* world, SimZnodesModel* model) noexcept nogil:
    cdef SimZxid zxid
    zxid.index = model.index
    zxid.revision = 0
    if model.changed != model.index or (model.zxids.size != 0 and model.zxids.back().index == model.index):
        return
    if not model.zxids.push(zxid):
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)


cdef status_t _do(World* world, SimZnodesModel* model, SimPlace place, SimDoorCommand* waiting) noexcept nogil:
    cdef const Command* command = &model.command
    cdef uint32_t position = 0
    cdef int32_t code
    if command.kind == COMMAND_KEYS:
        return _native(world, model)
    if command.kind == COMMAND_LEASE_GRANT:
        return _grant(model)
    if command.kind == COMMAND_LEASE_REVOKE:
        return _revoke(world, model, place)
    code = rules_request(model, command, place, &position)
    world.counts.znodes_refused += code != 0
    if waiting != NULL:
        waiting.position = position
        waiting.code = code
        waiting.expected.clear()
        if code == 0 and not waiting.expected.append(model.answers.data, model.answers.size):
            model.is_lost = True
    return OK if code == 0 else ZNODE_REFUSED


cdef void _take_session(World* world, SimZnodesModel* model, SimPlace place) noexcept nogil:
    cdef const Command* command = &model.command
    cdef bint opens = command.kind == COMMAND_SESSION_OPEN
    cdef SimDoorSession* session = _session(model, command.id if opens else command.session)
    cdef SimDoorCommand* waiting
    if session == NULL or (world.rights.is_enabled and command.speaker == SPEAKER_NONE):
        return                      # another client's; or spoken before the node knew that rights are on
    if opens:
        session.is_open = True
        session.floor = max(session.floor, <uint64_t>1)
        return
    if not session.is_open:
        return
    _advance(session, command.lowest_unanswered)
    if command.kind == COMMAND_LEASE_KEEP_ALIVE:
        _keep(model)
        return
    if _was_done(session, command.sequence):
        return
    if command.kind == COMMAND_ZNODES and command.pointer != 0 and not _was_done(session, command.pointer):
        model.refused_session = command.session
        model.refused_sequence = command.sequence
        world.counts.znodes_out_of_order += 1
        return
    model.is_lost |= not session.done.push(command.sequence)
    waiting = _waiting(world, command.session, command.sequence)
    if waiting == NULL:
        _do(world, model, place, NULL)
        return
    waiting.index = place.index
    waiting.judged = _do(world, model, place, waiting)
    waiting.is_judged = True
    waiting.is_change = model.changed == place.index
    _note_change(world, model)
    znodes_compare(world, 0, waiting)


cdef void znodes_take(World* world, index_t index, uint64_t chain) noexcept nogil:
    cdef SimZnodesModel* model = &world.znodes
    cdef const Record* record = entries_find(world, chain)
    cdef SimPlace place
    if index != model.index + 1 or record == NULL:
        model.is_lost = True        # every committed record was on a disk before
    model.index = index
    model.refused_session = 0
    if model.is_lost:
        world.counts.znodes_lost += 1
        return
    model.lease_ms = max(model.lease_ms, record.lease_ms)
    place.index = index
    place.wall_ms = record.wall_ms
    if (record.type != ENTRY_COMMAND
            or command_decode(<const uint8_t*>record + sizeof(Record), record.length, &model.command) != OK):
        return
    if model.command.kind == COMMAND_LEASE_EXPIRE:
        _expire(world, model, place)
    else:
        _take_session(world, model, place)
    _note_change(world, model)


# --- revisions --------------------------------------------------------------------------------------------------------
cdef bint znodes_zxid(World* world, index_t index, uint64_t revision) noexcept nogil:
    cdef SimZxid* zxids = world.znodes.zxids.data
    cdef size_t size = world.znodes.zxids.size
    cdef size_t low = 0, high = size, middle, other
    while low < high:
        middle = (low + high) // 2
        if zxids[middle].index < index:
            low = middle + 1
        else:
            high = middle
    if index == 0:
        return revision == 0        # nothing of the kind happened yet
    if low == size or zxids[low].index != index or revision == 0:
        return False
    if zxids[low].revision != 0:
        return zxids[low].revision == revision
    other = low
    while other > 0 and zxids[other - 1].revision == 0:
        other -= 1
    if other > 0 and zxids[other - 1].revision >= revision:
        return False
    other = low + 1
    while other < size and zxids[other].revision == 0:
        other += 1
    if other < size and zxids[other].revision <= revision:
        return False
    zxids[low].revision = revision
    return True


# --- answers ----------------------------------------------------------------------------------------------------------
cdef void _compare_stat(World* world, uint32_t node, const SimZnode* expected, const ZnodeStat* stat) noexcept nogil:
    cdef uint64_t owner = expected.owner
    if expected.kind == SIM_CONTAINER:
        owner = <uint64_t>1 << 63
    elif expected.kind == SIM_TTL:
        owner = <uint64_t>0xff << 56 | expected.ttl_ms
    if not (znodes_zxid(world, 0 if expected.is_founded else expected.czxid, stat.czxid)
            and znodes_zxid(world, expected.mzxid, stat.mzxid) and znodes_zxid(world, expected.pzxid, stat.pzxid)):
        violate(world, VIOLATION_ZNODE_ZXID, node, expected.mzxid, stat.mzxid)
    if (<uint32_t>stat.cversion != 2 * expected.creates - expected.children
            or <uint32_t>stat.children != expected.children):
        violate(world, VIOLATION_ZNODE_COUNTERS, node, expected.creates, <uint64_t>stat.cversion)
    if (stat.ctime_ms != expected.ctime_ms or stat.mtime_ms != expected.mtime_ms or stat.version != expected.version
            or stat.aversion != expected.aversion or stat.owner != owner
            or stat.data_length != <int32_t>expected.data_length):
        violate(world, VIOLATION_ZNODE_MODEL, node, owner, stat.owner)


# One parent gives one number once. Several may have come with one entry.
cdef void _compare_number(World* world, uint32_t node, const SimDoorCommand* command, const SimZnodeAnswer* expected,
                          const uint8_t* path, uint32_t length) noexcept nogil:
    cdef uint32_t first = length, name
    cdef index_t* given
    while first > 0 and c'0' <= path[first - 1] <= c'9':
        first -= 1
    name = first
    while name > 0 and path[name - 1] != c'/':
        name -= 1
    while first < length and path[first] == c'0':
        first += 1
    given = world.znodes.numbers.insert(hash64(hash64(expected.parent, path, name), path + first, length - first))
    if given == NULL:
        violate(world, VIOLATION_NO_MEMORY, node, 0, 0)
    elif given[0] != 0 and given[0] != command.index:
        violate(world, VIOLATION_ZNODE_SEQUENCE, node, given[0], command.index)
    else:
        given[0] = command.index


cdef void _compare_one(World* world, uint32_t node, const SimDoorCommand* command, const SimZnodeAnswer* expected,
                       Reader* reader) noexcept nogil:
    cdef uint32_t length = 0, root = 0
    cdef const uint8_t* bytes
    if expected.kind == ZNODE_CREATE:
        read_array(reader, 2)
        bytes = read_bin(reader, SIM_ZNODE_KEY_MAX, &length)
        while expected.node.key[root] != c'/':
            root += 1
        if reader.status == OK and expected.is_sequential:
            _compare_number(world, node, command, expected, bytes, length)
        if (reader.status != OK or length + root != expected.node.length
                or memcmp(bytes, expected.node.key + root, length) != 0):
            violate(world, VIOLATION_ZNODE_SEQUENCE if expected.is_sequential else VIOLATION_ZNODE_MODEL, node,
                    command.index, length)
    elif expected.kind == ZNODE_DELETE or expected.kind == ZNODE_CHECK:
        if not read_nil(reader):
            violate(world, VIOLATION_ZNODE_MODEL, node, command.index, expected.kind)
        return
    bytes = read_bin(reader, sizeof(ZnodeStat), &length)
    if length != sizeof(ZnodeStat):
        violate(world, VIOLATION_ZNODE_MODEL, node, command.index, length)
    else:
        _compare_stat(world, node, &expected.node, <const ZnodeStat*>bytes)


cdef void _compare_results(World* world, uint32_t node, const SimDoorCommand* command) noexcept nogil:
    cdef Reader reader = reader_over(command.answer.data, command.answer.size)
    cdef uint32_t position
    cdef size_t i
    read_array(&reader, 3)
    read_uint(&reader, unsigned_max())
    read_uint(&reader, unsigned_max())
    if command.judged == ZNODE_REFUSED:
        read_array(&reader, 2)
        position = <uint32_t>read_uint(&reader, OPS_MAX)
        if read_int(&reader) != command.code or position != command.position or read_done(&reader) != OK:
            violate(world, VIOLATION_ZNODE_MODEL, node, command.index, <uint64_t><int64_t>command.code)
        return
    if command.is_change and not znodes_zxid(world, command.index, command.revision):
        violate(world, VIOLATION_ZNODE_ZXID, node, command.index, command.revision)
    if read_array_max(&reader, OPS_MAX) != command.expected.size:
        violate(world, VIOLATION_ZNODE_MODEL, node, command.index, command.expected.size)
        return
    for i in range(command.expected.size):
        _compare_one(world, node, command, &command.expected.data[i], &reader)
    if read_done(&reader) != OK:
        violate(world, VIOLATION_ZNODE_MODEL, node, command.index, reader.status)


# An earlier request of the session is done at an earlier revision, or the same.
cdef void _compare_order(World* world, uint32_t node, const SimDoorCommand* command) noexcept nogil:
    cdef uint32_t i
    cdef const SimDoorCommand* other
    for i in range(SIM_DOOR_WINDOW):
        other = &world.doors[command.door].commands[i]
        if (other.payload.size == 0 or not other.is_answered or other.wish != DOOR_ZNODES
                or other.owner != command.owner or other.revision == command.revision):
            continue
        if (other.sequence < command.sequence) != (other.revision < command.revision):
            violate(world, VIOLATION_ZNODE_ORDER, node, other.sequence, command.sequence)


cdef void znodes_compare(World* world, uint32_t node, SimDoorCommand* command) noexcept nogil:
    if command.is_answered and command.wish == DOOR_ZNODES:
        _compare_order(world, node, command)
    if not command.is_answered or not command.is_judged or world.znodes.is_lost:
        return
    world.counts.znode_answers += 1
    if command.wish == DOOR_NATIVE:         # why else it may be refused is no matter of znodes
        if (command.status == ZNODE_WRITE) != (command.judged == ZNODE_WRITE):
            violate(world, VIOLATION_ZNODE_MODEL, node, command.index, command.status)
    elif command.status != command.judged:
        violate(world, VIOLATION_ZNODE_MODEL, node, command.index, command.status)
    elif command.wish == DOOR_ZNODES:
        _compare_results(world, node, command)


cdef void znodes_release(World* world) noexcept nogil:
    cdef SimZnodesModel* model = &world.znodes
    cdef uint32_t i
    model.nodes.release()
    model.before.release()
    model.plain.release()
    model.leases.release()
    model.ended.release()
    model.zxids.release()
    model.numbers.release()
    model.answers.release()
    model.scratch.release()
    for i in range(SIM_DOOR_SESSIONS):
        model.sessions[i].done.release()
    command_release(&model.command)
