"""Members of worker groups: bodies.

    out -> joining -> joined -> syncing -> working -> joining ...
A client leaves this row when it is refused, hangs, leaves, or its process ends. It asks again until it is answered.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.machine.group_records cimport GROUP_COMPLETING, GROUP_PREPARING, GROUP_STABLE
from raftmeta.machine.state cimport LEVEL_OF_GROUPS, LEVEL_OF_JOIN_LEASES
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport next_random
from raftmeta.sim.world.calls cimport call_take
from raftmeta.sim.world.groups_state cimport (CLIENT_COMMITS, CLIENT_GRANTS, CLIENT_JOINED, CLIENT_JOINING,
                                              CLIENT_JOINS, CLIENT_LEAVES, CLIENT_OPENS, CLIENT_OUT, CLIENT_SYNCING,
                                              CLIENT_SYNCS, CLIENT_TRIES, CLIENT_WORKING, CLIENT_WRITES,
                                              SIM_GROUP_CLIENTS, SIM_GROUP_MEMBERS,
                                              SIM_GROUP_RESOURCES, SIM_GROUP_STATIC, SIM_GROUPS, SIM_MEMBER_ID_MAX,
                                              SimGroupClient, SimGroups, SimGroupView, SimMember)
from raftmeta.sim.world.groups_view cimport group_key, group_look, id_bytes, id_is, id_keep, view_member
from raftmeta.sim.world.sendings cimport sending_submit
from raftmeta.sim.world.topic_clients cimport topic_commit_make
from raftmeta.sim.world.world_state cimport CALL_GROUP, VIOLATION_FATAL, violate
from raftmeta.status cimport GROUP_REFUSED, LEASE_EXPIRED, OK, RESULT_EVICTED, SESSION_UNKNOWN
from raftmeta.wire.commands cimport (COMMAND_GROUPS, COMMAND_KEYS, COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE,
                                     COMMAND_LEASE_REVOKE, COMMAND_SESSION_OPEN, OP_PUT, Bytes, Command, LeaseItem, Op,
                                     Txn, command_clear, command_encode)
from raftmeta.wire.groups cimport (GROUP_DELETE, GROUP_FENCED_INSTANCE, GROUP_ILLEGAL_GENERATION, GROUP_JOIN,
                                   GROUP_LEAVE, GROUP_REBALANCE_IN_PROGRESS, GROUP_SYNC, GroupRequest, groups_encode)
from raftmeta.wire.msgpack cimport Reader, read_array, read_bin, read_int, read_uint, reader_over, unsigned_max

cdef enum:
    RESULTS_MAX = 32            # below this the number stands in replicated results (raftmeta/status.pxd)
    SENDINGS_OPEN_MAX = 48
    ANSWER_ID_REQUIRED = 3      # of a join (docs/formats.md "Groups")
    SESSION_WINDOW = 8
    WORDS = 3                   # lists of protocols
    MEMBERS_MAX = 5             # of a group, as some joins say
    LEASE_MS_MIN = 300

cdef uint64_t FOREVER_MS = <uint64_t>1 << 40

# Where the bytes of one request stand until it is encoded.
cdef struct Texts:
    Bytes[2 * SIM_GROUP_MEMBERS] pairs
    uint8_t[SIM_GROUP_MEMBERS * SIM_GROUP_RESOURCES] shares
    uint8_t[4] instance
    uint8_t[4] key
    uint8_t[SIM_MEMBER_ID_MAX + 16] fence
    uint64_t value


cdef inline SimGroups* _groups(World* world) noexcept nogil:
    return <SimGroups*>world.groups

cdef inline uint64_t _draw(World* world) noexcept nogil:
    return next_random(&world.random_groups)

cdef Bytes _text(const char* text, uint32_t length) noexcept nogil:
    cdef Bytes window
    window.data = <const uint8_t*>text
    window.length = length
    return window


# The leases of clients that call seldom must live longer.
cdef uint64_t _lease_ms(const World* world, uint64_t draw) noexcept nogil:
    return LEASE_MS_MIN + draw % 1700 + world.config.faults.client_gap_us // 25


# Half of the clients have no lease before their joins grant them one.
cdef bint _is_granted(const SimGroupClient* client) noexcept nogil:
    return client.session >> 8 & 1


cdef uint64_t _silence_ns(const World* world) noexcept nogil:
    return 2_000_000 * _lease_ms(world, 1699)


# --- requests ---------------------------------------------------------------------------------------------------------
cdef void _name(SimGroupClient* client, uint32_t number, GroupRequest* request, Texts* texts) noexcept nogil:
    request.member = id_bytes(&client.id)
    memcpy(texts.instance, b"i-1", 3)
    request.instance = _text(<const char*>texts.instance, 3 if number < SIM_GROUP_STATIC else 0)


cdef uint32_t _protocols(const SimGroupClient* client, Bytes* pairs) noexcept nogil:
    cdef uint32_t second = client.words == 2
    cdef uint32_t i
    for i in range(4):
        pairs[i] = _text(b"m", 1)
    pairs[2 * second] = _text(b"x", 1)
    pairs[2 - 2 * second] = _text(b"y", 1)
    return 2 if client.words else 1


cdef uint32_t _join(World* world, SimGroupClient* client, GroupRequest* request, Texts* texts) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    request.verb = GROUP_JOIN
    request.client = _text(b"c", 1)
    request.type = _text(b"work", 4)
    request.rebalance_ms = <uint32_t>(_lease_ms(world, draw) // 2)
    request.initial_ms = <uint32_t>(50 + (draw >> 16) % 300) if draw >> 32 & 1 else <uint32_t>0
    request.members_max = MEMBERS_MAX if draw >> 40 & 3 == 0 else SIM_GROUP_MEMBERS - 8
    request.must_know = draw >> 48 & 3 == 0
    if draw >> 52 & 15 == 0:
        client.words = <uint8_t>((draw >> 56) % WORDS)
    client.wish = CLIENT_JOINS
    return _protocols(client, texts.pairs)


# A leader gives each member its share: resource r to one of them, in each generation to another. At times it leaves
# one out.
cdef uint32_t _shares(SimGroupView* view, uint32_t generation, uint32_t left_out, Texts* texts) noexcept nogil:
    cdef uint32_t members = 0, count = 0, place, resource, i
    cdef uint8_t* share
    for i in range(view.count):
        members += not view.members[i].is_pending and i != left_out
    for i in range(view.count):
        if view.members[i].is_pending or i == left_out:
            continue
        share = texts.shares + count * SIM_GROUP_RESOURCES
        texts.pairs[2 * count] = id_bytes(&view.members[i].id)
        place = 0
        for resource in range(SIM_GROUP_RESOURCES):
            if (resource + generation) % members == count:
                share[place] = <uint8_t>(c"0" + resource)
                place += 1
        texts.pairs[2 * count + 1].data = share
        texts.pairs[2 * count + 1].length = place
        count += 1
    return count


# view: NULL, or a leader assigns by it.
cdef uint32_t _sync(World* world, SimGroupClient* client, GroupRequest* request, SimGroupView* view,
                    Texts* texts) noexcept nogil:
    request.verb = GROUP_SYNC
    request.generation = client.generation
    client.wish = CLIENT_SYNCS
    if view != NULL:
        return _shares(view, client.generation, <uint32_t>_draw(world) % (SIM_GROUP_MEMBERS // 2), texts)
    texts.pairs[0] = request.member         # a follower that takes itself for the leader of all
    texts.pairs[1] = _text(b"0123", 4)
    return 1


cdef uint32_t _leave(GroupRequest* request, Texts* texts) noexcept nogil:
    request.verb = GROUP_LEAVE
    texts.pairs[0] = request.member
    texts.pairs[1] = request.instance
    return 1


# Requests that the machine should refuse, and requests of an operator.
cdef uint32_t _try(World* world, SimGroupClient* client, GroupRequest* request, Texts* texts) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t choice = <uint32_t>draw % 8
    cdef uint32_t count = 0
    client.wish = CLIENT_TRIES
    if choice < 6 and client.id.length != 0:
        count = _sync(world, client, request, NULL, texts)
        client.wish = CLIENT_TRIES
        if choice < 3 and client.generation != 0:
            request.generation -= 1
        elif choice == 3:
            request.generation += 1
        else:                       # under the name of another one's instance
            memcpy(texts.instance, b"i-1", 3)
            request.instance = _text(<const char*>texts.instance, 3)
        if choice == 5:
            count = _leave(request, texts)
        return count
    if choice == 6:
        request.member = _text(NULL, 0)
        memcpy(texts.instance, b"i-1", 3)
        request.instance = _text(<const char*>texts.instance, 3)
        return _leave(request, texts)
    request.verb = GROUP_DELETE
    return 0


cdef bint _request(World* world, SimGroupClient* client, uint32_t number, uint8_t wish, SimGroupView* view,
                   Command* command, Texts* texts) noexcept nogil:
    cdef GroupRequest request
    cdef Vec[uint8_t]* data = &_groups(world).scratch
    cdef uint32_t count
    memset(&request, 0, sizeof(GroupRequest))
    _name(client, number, &request, texts)
    if wish == CLIENT_JOINS:
        count = _join(world, client, &request, texts)
    elif wish == CLIENT_SYNCS:
        count = _sync(world, client, &request, view, texts)
    elif wish == CLIENT_LEAVES:
        count = _leave(&request, texts)
        client.wish = CLIENT_LEAVES
    else:
        count = _try(world, client, &request, texts)
    command.kind = COMMAND_GROUPS
    command.id = client.lease if request.verb == GROUP_JOIN else 0
    if request.verb == GROUP_JOIN and _is_granted(client):
        command.id = 0
        command.ttl_ms = _lease_ms(world, client.session)
    command.name = group_key(number % SIM_GROUPS)
    data.clear()
    if groups_encode(&request, texts.pairs, count, data) != OK:
        return False
    command.data.data = data.data
    command.data.length = <uint32_t>data.size
    return True


# To a resource of its own, as it believes.
cdef bint _write(World* world, SimGroupClient* client, uint32_t number, Command* command, Texts* texts) noexcept nogil:
    cdef uint32_t resource = <uint32_t>_draw(world) % SIM_GROUP_RESOURCES
    cdef Bytes key = group_key(number % SIM_GROUPS)
    cdef Op op
    cdef Txn txn
    while not client.resources >> resource & 1:
        resource = (resource + 1) % SIM_GROUP_RESOURCES
    memset(&txn, 0, sizeof(Txn))
    memset(&op, 0, sizeof(Op))
    txn.then_count = 1
    memcpy(texts.key, b"w-a0", 4)
    texts.key[2] += <uint8_t>(number % SIM_GROUPS)
    texts.key[3] += <uint8_t>resource
    texts.value = client.assigned
    op.kind = OP_PUT
    op.key = _text(<const char*>texts.key, 4)
    op.value = _text(<const char*>&texts.value, sizeof(uint64_t))
    memcpy(texts.fence, key.data, key.length)
    texts.fence[key.length] = 0
    memcpy(texts.fence + key.length + 1, client.id.bytes, client.id.length)
    command.kind = COMMAND_KEYS
    command.fence.is_present = True
    command.fence.key = _text(<const char*>texts.fence, key.length + 1 + client.id.length)
    command.fence.create_revision = client.fence
    client.wish = CLIENT_WRITES
    return command.txns.push(txn) and command.ops.push(op)


# --- the next command -------------------------------------------------------------------------------------------------
cdef void _go_out(SimGroupClient* client) noexcept nogil:
    client.phase = CLIENT_OUT
    client.id.length = 0
    client.generation = 0
    client.resources = 0


# Its group, as a node that it asks shows it. It waits until that is worth another request, and then what it wants; 0:
# it goes on waiting.
cdef uint8_t _look(World* world, SimGroupClient* client, uint32_t number, SimGroupView* view) noexcept nogil:
    cdef SimNode* node = _some_node(world, client)
    cdef SimMember* me
    cdef Bytes id = id_bytes(&client.id)
    cdef uint64_t draw = _draw(world)
    if node == NULL:
        return 0
    if draw & 63 == 0:              # its caller lost patience
        return CLIENT_JOINS
    group_look(node.engine.machine, number % SIM_GROUPS, view)
    me = view_member(view, &id)
    if not view.exists or view.generation < client.generation or me == NULL:
        return 0                    # an old state, or it is no member any more: it will be told so
    if _is_granted(client):
        client.lease = me.lease
    if view.state == GROUP_PREPARING or (view.generation != client.generation and client.phase != CLIENT_JOINING):
        return CLIENT_JOINS if me.joined != view.generation + 1 else 0
    if client.phase == CLIENT_JOINING and view.state >= <uint32_t>GROUP_COMPLETING:
        client.generation = view.generation
        client.phase = CLIENT_JOINED
    if client.phase == CLIENT_JOINED and id_is(&view.leader, &id):
        return CLIENT_SYNCS
    if client.phase == CLIENT_JOINED:
        client.phase = CLIENT_SYNCING
    if client.phase == CLIENT_SYNCING and view.state == GROUP_STABLE and me.assigned == client.generation:
        client.fence = me.fence
        client.resources = me.resources
        client.assigned = client.generation
        client.phase = CLIENT_WORKING
    return 0


cdef uint8_t _work(World* world, SimGroupClient* client, uint32_t number, SimGroupView* view) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint8_t wish = 0
    if draw & 3 == 0:
        wish = _look(world, client, number, view)
    if wish != 0:
        return wish
    if draw >> 8 & 63 == 0:
        return CLIENT_JOINS
    if draw >> 16 & 127 == 0:
        return CLIENT_LEAVES
    return CLIENT_WRITES if client.resources != 0 else 0


# Another lease, or none any more.
cdef bint _wants_lease(const SimGroupClient* client, uint64_t draw) noexcept nogil:
    cdef bint has_enough = draw >> 32 & 1023 == 0
    return client.lease != 0 and has_enough if _is_granted(client) else client.lease == 0 or has_enough


# Offsets, in its generation or in one that it was in before; at times under the name of another one's instance.
cdef bint _commit(World* world, SimGroupClient* client, uint32_t number, Command* command, Texts* texts) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_topics)
    cdef int32_t generation = <int32_t>client.generation
    cdef Bytes id = id_bytes(&client.id)
    cdef Bytes instance
    memcpy(texts.instance, b"i-1", 3)
    instance = _text(<const char*>texts.instance, 3 if number < SIM_GROUP_STATIC or draw & 31 == 0 else 0)
    if draw >> 8 & 7 == 0:
        generation -= 1
    client.wish = CLIENT_COMMITS
    return topic_commit_make(world, command, number % SIM_GROUPS, generation, &id, &instance)


cdef uint8_t _want(World* world, SimGroupClient* client, uint32_t number, SimGroupView* view) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    if client.session == 0:
        return CLIENT_OPENS
    if _wants_lease(client, draw):
        return CLIENT_GRANTS
    if world.config.has_topics and client.id.length != 0 and next_random(&world.random_topics) % 8 == 0:
        return CLIENT_COMMITS
    if draw & 31 == 0:
        return CLIENT_TRIES
    if client.phase == CLIENT_OUT:
        return CLIENT_JOINS
    if client.phase == CLIENT_WORKING:
        return _work(world, client, number, view)
    if client.resources != 0 and draw >> 16 & 3 == 0:
        return CLIENT_WRITES        # it puts its work down; perhaps somebody else owns that already
    if client.phase == CLIENT_SYNCING and draw >> 8 & 7 == 0:
        return CLIENT_SYNCS         # a follower by the log: it cannot assign
    return _look(world, client, number, view)


# A client without a lease asks for one; now and then one lets go of it.
cdef void _lease(World* world, SimGroupClient* client, Command* command) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    client.wish = CLIENT_GRANTS
    if client.lease != 0:
        command.kind = COMMAND_LEASE_REVOKE
        command.id = client.lease
        client.lease = 0
        return
    client.lease = draw >> 1 | 1
    command.kind = COMMAND_LEASE_GRANT
    command.id = client.lease
    command.ttl_ms = _lease_ms(world, draw)


cdef void _open(World* world, SimGroupClient* client, Command* command) noexcept nogil:
    client.session = _draw(world) >> 2 | 1
    client.sequence = 0
    client.wish = CLIENT_OPENS
    command.kind = COMMAND_SESSION_OPEN
    command.id = client.session
    command.ttl_ms = FOREVER_MS
    command.window = SESSION_WINDOW


# False: it asks for nothing now.
cdef bint _next(World* world, SimGroupClient* client, uint32_t number) noexcept nogil:
    cdef Command* command = &world.command
    cdef SimGroupView* view = &_groups(world).seen
    cdef Texts texts
    cdef bint is_made = True
    cdef uint8_t wish = _want(world, client, number, view)
    if wish == 0:
        return False
    command_clear(command)
    client.is_answered = False
    if wish == CLIENT_OPENS:
        _open(world, client, command)
    else:
        client.sequence += 1
        command.session = client.session
        command.sequence = command.lowest_unanswered = client.sequence
        if wish == CLIENT_GRANTS:
            _lease(world, client, command)
        elif wish == CLIENT_WRITES:
            is_made = _write(world, client, number, command, &texts)
        elif wish == CLIENT_COMMITS:
            is_made = _commit(world, client, number, command, &texts)
        else:
            is_made = _request(world, client, number, wish, view if client.phase == CLIENT_JOINED else NULL, command,
                               &texts)
    client.payload.clear()
    if not is_made or command_encode(command, &client.payload) != OK:
        violate(world, VIOLATION_FATAL, 0, 18, client.sequence)
    command_clear(command)
    return True


# --- sendings ---------------------------------------------------------------------------------------------------------
# One that knows what the client asks for.
cdef SimNode* _some_node(World* world, const SimGroupClient* client) noexcept nogil:
    cdef SimNode* node = &world.nodes[_draw(world) % world.config.nodes]
    cdef uint32_t level = LEVEL_OF_GROUPS
    if _is_granted(client) or client.wish == CLIENT_COMMITS:
        level = LEVEL_OF_JOIN_LEASES
    if (not node.is_up or node.engine.state != ENGINE_RUNNING or node.paused_until_ns > world.now_ns
            or node.engine.machine.feature_level < level or node.calls_open >= SENDINGS_OPEN_MAX):
        return NULL
    return node


cdef uint32_t _send(World* world, SimGroupClient* client, uint32_t number) noexcept nogil:
    cdef SimNode* node = _some_node(world, client)
    cdef SimCall* call
    if node == NULL:
        return 0
    call = call_take(world, node, CALL_GROUP)
    if call == NULL:
        return 0
    call.key = <uint8_t>number
    call.session = client.session
    call.number = client.sequence
    world.counts.group_sendings += 1
    return sending_submit(world, node, &client.payload, call, client.session, client.sequence)


# Nobody waits for the answer.
cdef uint32_t _keep(World* world, SimGroupClient* client) noexcept nogil:
    cdef SimNode* node = _some_node(world, client)
    cdef Command* command = &world.command
    cdef Vec[uint8_t]* bytes = &_groups(world).scratch
    cdef LeaseItem item
    if node == NULL or client.lease == 0 or client.session == 0:
        return 0
    command_clear(command)
    command.kind = COMMAND_LEASE_KEEP_ALIVE
    command.session = client.session
    item.deadline_ms = 0
    item.lease = client.lease
    bytes.clear()
    if not command.leases.push(item) or command_encode(command, bytes) != OK:
        violate(world, VIOLATION_FATAL, node.number, 19, client.session)
        return 0
    command_clear(command)
    return sending_submit(world, node, bytes, NULL, client.session, 0)


# It hangs, or ends and comes back as another process: with the same instance, and nothing else.
cdef void _strike(World* world, SimGroupClient* client) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    if draw & 511 == 0:
        client.silent_until_ns = world.now_ns + (draw >> 32) % _silence_ns(world)
    if draw >> 16 & 511 == 0:
        _go_out(client)
        client.session = client.lease = 0
        client.payload.clear()


cdef uint32_t group_clients_act(World* world) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t number = <uint32_t>draw % SIM_GROUP_CLIENTS
    cdef SimGroupClient* client
    cdef uint32_t nodes = 0
    if world.groups == NULL:
        return 0
    client = &_groups(world).clients[number]
    if client.silent_until_ns > world.now_ns:
        return 0
    _strike(world, client)
    if draw >> 8 & 3 == 0:
        nodes = _keep(world, client)
    if client.payload.size != 0 and not client.is_answered:
        return nodes | (_send(world, client, number) if draw >> 16 & 1 else 0)
    if _next(world, client, number):
        nodes |= _send(world, client, number)
    return nodes


# --- answers ----------------------------------------------------------------------------------------------------------
cdef void _refused(World* world, SimGroupClient* client, int code) noexcept nogil:
    if client.wish == CLIENT_TRIES:
        return
    if code == GROUP_REBALANCE_IN_PROGRESS or (code == GROUP_ILLEGAL_GENERATION and client.id.length != 0):
        client.phase = CLIENT_JOINING           # until a node shows what is to be done
        return
    _go_out(client)
    if code == GROUP_FENCED_INSTANCE:           # another process has its instance: it lets that one work for a while
        client.silent_until_ns = world.now_ns + _silence_ns(world)


cdef void _joined(SimGroupClient* client, Reader* reader) noexcept nogil:
    cdef uint32_t length = 0
    cdef uint64_t what
    cdef Bytes id
    read_array(reader, 6)
    what = read_uint(reader, unsigned_max())
    id.data = read_bin(reader, SIM_MEMBER_ID_MAX, &length)
    id.length = length
    if reader.status != OK:
        return
    id_keep(&client.id, &id)
    client.generation = <uint32_t>read_uint(reader, unsigned_max())
    client.phase = CLIENT_OUT if what == ANSWER_ID_REQUIRED else CLIENT_JOINING


cdef void group_clients_done(World* world, SimNode* node, const SimCall* call, status_t status, const uint8_t* body,
                             uint32_t length) noexcept nogil:
    cdef SimGroupClient* client = &_groups(world).clients[call.key]
    cdef Reader reader = reader_over(body, length)
    if (client.session != call.session or client.sequence != call.number or client.is_answered
            or client.payload.size == 0 or status == SESSION_UNKNOWN):
        return                      # of an earlier life, known, or from where its session is not open yet
    if status >= RESULTS_MAX and status != RESULT_EVICTED:
        return                      # this sending's fate
    client.is_answered = True
    if status == RESULT_EVICTED:
        _go_out(client)
        return
    read_array(&reader, 3)
    read_uint(&reader, unsigned_max())
    read_uint(&reader, unsigned_max())
    if status == GROUP_REFUSED:
        _refused(world, client, <int>read_int(&reader))
    elif status == LEASE_EXPIRED:
        client.lease = 0
        _go_out(client)
    elif client.wish == CLIENT_LEAVES:
        _go_out(client)
    elif client.wish == CLIENT_WRITES and status != OK:
        client.resources = 0        # fenced: it looks what became of its group
    elif status == OK and client.wish == CLIENT_JOINS:
        _joined(client, &reader)
    elif status == OK and client.wish == CLIENT_SYNCS and client.phase == CLIENT_JOINED:
        client.phase = CLIENT_SYNCING
