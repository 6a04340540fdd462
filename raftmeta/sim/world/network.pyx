"""The simulated network between the engines.

Connections are opened by SIM_CONNECT events with the real HELLO of both sides; frames are the real bytes, checked by
frame_decode as a socket's reader would, and dropped, repeated, delayed and reordered by the network's random stream; a
frame that no fault strikes keeps the order of its connection, as TCP does.
A frame that its receiver refuses closes the connection, as in production; a new one is tried a little later.
A node dials whom its engine wants to reach, and nobody else, as the loop does.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta.engine.engine cimport (engine_address_refused, engine_frame, engine_hello, engine_hung_up,
                                     engine_link_down, engine_link_up, engine_own_hello, engine_wants_link)
from raftmeta.native.chunks cimport Chunk, Slice, chunk_create, chunk_drop, chunk_hold
from raftmeta.native.intrinsics cimport hash64, next_random
from raftmeta.ports cimport NetworkPort
from raftmeta.raft.types cimport MEMBERS_MAX, MEMBERSHIP_PROPOSE, Message
from raftmeta.sim.world.atlas cimport atlas_is_calm
from raftmeta.sim.world.events cimport SIM_CONNECT, SIM_FRAME, SimEvent
from raftmeta.sim.world.read_proofs cimport proofs_heard, proofs_said
from raftmeta.sim.world.schedule cimport schedule
from raftmeta.sim.world.truth cimport truth_message
from raftmeta.sim.world.world_state cimport (SIM_BEGIN_NS, SIM_OLD_FRAMES, VIOLATION_CORRUPT_TAKEN, VIOLATION_FATAL,
                                             VIOLATION_IDENTITY, VIOLATION_NO_MEMORY, SimFrame, SimNode, SimOldFrame,
                                             SimSaid, World, violate)
from raftmeta.status cimport OK, is_fatal, status_t
from raftmeta.wire.frame cimport (FRAME_BODY_BYTES_MAX, FRAME_GENESIS, FRAME_HEADER_BYTES, FRAME_MESSAGE, FrameHeader,
                                  frame_decode)
from raftmeta.wire.hello cimport Hello, hello_decode, hello_encode
from raftmeta.wire.messages cimport message_decode

cdef enum:
    RECONNECT_NS = 10_000_000       # mean wait before a connection is tried again
    DETECT_NS = 1_000_000           # until a reset and a refused reconnect are seen
    REJECTS_SEED = 0x2e7ec7
    LOOK_NS = 50_000_000            # how often a node looks whom it wants to reach; a loop does every 10 ms


cdef inline bint _happens(uint64_t* random, uint32_t ppm) noexcept nogil:
    return ppm != 0 and next_random(random) % 1_000_000 < ppm


cdef bint _hears(World* world, uint32_t target, uint32_t source) noexcept nogil:
    return world.hears[target] >> source & 1 != 0


# Position of another node in this engine's table: names are n0, n1, ...
cdef int _link_to(SimNode* node, uint32_t other) noexcept nogil:
    cdef int i
    for i in range(MEMBERS_MAX):
        if (node.engine.links.table[i].is_used and node.engine.links.table[i].name_length == 2
                and node.engine.links.table[i].name[1] == c'0' + other):
            return i
    return -1


# --- connections ------------------------------------------------------------------------------------------------------
cdef void _plan_connect(World* world, SimNode* node, uint32_t other, uint64_t wait_ns) noexcept nogil:
    cdef SimEvent event
    if node.connects[other] or other == node.number:
        return
    node.connects[other] = True
    memset(&event, 0, sizeof(SimEvent))
    event.time_ns = world.now_ns + wait_ns + next_random(&world.random_network) % (wait_ns + 1)
    event.kind = SIM_CONNECT
    event.node = node.number
    event.other = other
    event.life = node.life
    schedule(world, &event)


cdef void network_node_up(World* world, SimNode* node) noexcept nogil:
    cdef uint32_t other
    memset(node.connects, 0, sizeof(node.connects))
    memset(node.inbound, 0, sizeof(node.inbound))
    for other in range(world.config.nodes):
        _plan_connect(world, node, other, DETECT_NS)
        if other != node.number and world.nodes[other].is_up:
            _plan_connect(world, &world.nodes[other], node.number, DETECT_NS)


# The other side's connection to this node is closed, and this node knows it, if it runs.
cdef void _hung_up(SimNode* node, uint32_t other) noexcept nogil:
    if node.is_up:
        engine_hung_up(node.engine, &node.inbound[other])
    node.inbound[other].is_bound = False


# Nobody listens at the other side's address, as far as this node can see.
cdef void _refuse(SimNode* node, int link) noexcept nogil:
    engine_link_down(node.engine, link, True)
    engine_address_refused(node.engine, link)


# Between these two stands something that resets connections which it does not let through, and refuses new ones. To
# each of them the other one's process seems to be gone.
cdef bint _is_rejected(const World* world, uint32_t node, uint32_t other) noexcept nogil:
    cdef uint64_t draw = hash64(REJECTS_SEED, &world.config.seed, sizeof(uint64_t))
    cdef uint32_t one = <uint32_t>(draw >> 8) % world.config.nodes
    cdef uint32_t two = (one + 1) % world.config.nodes
    return (world.config.has_processes and draw & 1 != 0 and one != two
            and (node == one and other == two or node == two and other == one))


cdef void network_node_down(World* world, SimNode* node) noexcept nogil:
    cdef uint32_t other
    cdef int link
    # A host without power sends no reset: its connections look open until a frame meets nobody or its next boot.
    cdef bint is_silent = world.config.ends_silently and next_random(&world.random_network) & 1
    for other in range(world.config.nodes):
        if other == node.number or not world.nodes[other].is_up:
            continue
        if is_silent or not _hears(world, other, node.number):
            world.nodes[other].inbound[node.number].is_bound = False
            continue
        _hung_up(&world.nodes[other], node.number)
        link = _link_to(&world.nodes[other], node.number)
        if link >= 0:
            _refuse(&world.nodes[other], link)
        _plan_connect(world, &world.nodes[other], node.number, RECONNECT_NS)


# All nodes but the last, and two at least: then each leader hears of an old node beside itself, and raises no level
# above the old one. A voter that is alone for a while may raise it, and old nodes are refused until they are upgraded.
cdef bint _is_old(const World* world, const SimNode* node) noexcept nogil:
    if world.config.old_level == 0 or not world.faults_are_on:
        return False
    return (node.number < max(world.config.nodes - 1, <uint32_t>2)
            and world.now_ns < SIM_BEGIN_NS + <uint64_t>world.config.upgrade_ms * 1_000_000)


# The HELLO of source as the other side reads it: through its real bytes.
cdef bint _pass_hello(World* world, SimNode* source, uint32_t link, Hello* hello) noexcept nogil:
    cdef Hello own
    engine_own_hello(source.engine, link, &own)
    if _is_old(world, source):
        own.feature_level_max = min(own.feature_level_max, world.config.old_level)
    world.scratch.clear()
    if hello_encode(&own, &world.scratch) != OK:
        violate(world, VIOLATION_FATAL, source.number, 1, 0)
        return False
    return hello_decode(world.scratch.data, <uint32_t>world.scratch.size, hello) == OK


cdef void network_connect(World* world, const SimEvent* event) noexcept nogil:
    cdef SimNode* node = &world.nodes[event.node]
    cdef SimNode* other = &world.nodes[event.other]
    cdef int link
    cdef Hello hello
    cdef status_t status
    node.connects[event.other] = False
    link = _link_to(node, event.other)
    if link < 0 or node.engine.links.table[link].is_up or not engine_wants_link(node.engine, link):
        return
    if not _hears(world, event.node, event.other) or not _hears(world, event.other, event.node):
        if _is_rejected(world, event.node, event.other):
            _refuse(node, link)
        _plan_connect(world, node, event.other, RECONNECT_NS)
        return
    if not other.is_up:
        _refuse(node, link)
        _plan_connect(world, node, event.other, RECONNECT_NS)
        return
    status = OK
    if _pass_hello(world, node, <uint32_t>link, &hello):
        status = engine_hello(other.engine, &hello, &other.inbound[event.node])
        other.inbound_life[event.node] = node.life
    if status == OK and _pass_hello(world, other, MEMBERS_MAX, &hello):
        status = engine_link_up(node.engine, link, &hello)
    if status != OK:
        _plan_connect(world, node, event.other, RECONNECT_NS)


cdef void _hang_up(World* world, SimNode* node, uint32_t other, int link) noexcept nogil:
    engine_link_down(node.engine, link, False)
    if world.nodes[other].inbound_life[node.number] == node.life:
        _hung_up(&world.nodes[other], node.number)


cdef void network_look(World* world, SimNode* node) noexcept nogil:
    cdef uint32_t other
    cdef int link
    if world.now_ns - node.links_looked_ns < LOOK_NS:
        return
    node.links_looked_ns = world.now_ns
    for other in range(world.config.nodes):
        link = _link_to(node, other)
        if link < 0 or other == node.number:
            continue
        if not engine_wants_link(node.engine, link):
            if node.engine.links.table[link].is_up:
                _hang_up(world, node, other, link)
        elif not node.engine.links.table[link].is_up:
            _plan_connect(world, node, other, DETECT_NS)


# --- frames -----------------------------------------------------------------------------------------------------------
# Every outgoing message is held against what this node's disk has (I5, I6), from its real bytes.
cdef void _check_said(World* world, SimNode* node, const uint8_t* head, const Slice* records) noexcept nogil:
    cdef const FrameHeader* header = <const FrameHeader*>head
    cdef Message message
    memset(&world.said, 0, sizeof(SimSaid))
    if header.type != FRAME_MESSAGE:
        return
    memset(&message, 0, sizeof(Message))
    if message_decode(head + FRAME_HEADER_BYTES, header.body_length, records, &message) != OK:
        violate(world, VIOLATION_FATAL, node.number, 2, header.body_length)
        return
    message.source = header.source
    message.target = header.target
    world.said.type = message.type
    world.said.is_refusal = message.reject
    world.said.member = message.source
    world.said.term = message.term
    world.said.context = message.context
    truth_message(world, node, &message)
    proofs_said(world, node, &message)


# A copy with one bit flipped, or without its end.
cdef Chunk* _corrupted(World* world, Chunk* chunk) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_network)
    cdef uint32_t length = chunk.used
    cdef Chunk* copy
    if draw & 7 == 0:
        length = <uint32_t>(1 + (draw >> 8) % length)
    copy = chunk_create(length)
    if copy == NULL:
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
        return NULL
    memcpy(copy.bytes(), chunk.bytes(), length)
    copy.used = length
    if length == chunk.used:
        copy.bytes()[(draw >> 8) % length] ^= <uint8_t>(1 << (draw >> 3) % 8)
    world.counts.corrupted += 1
    return copy


# Put one copy of a frame on its way; an extra one, a repetition, comes in no order.
cdef void _fly(World* world, SimNode* node, uint32_t target, Chunk* chunk, bint is_extra,
               bint is_replay) noexcept nogil:
    cdef SimEvent event
    cdef SimFrame* frame = <SimFrame*>calloc(1, sizeof(SimFrame))
    cdef uint32_t most_us = world.config.faults.latency_us
    cdef bint is_ordered = not is_extra
    if frame == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    frame.is_replay = is_replay
    frame.said = world.said
    if world.faults_are_on and _happens(&world.random_network, world.config.faults.delay_ppm):
        most_us = world.config.faults.delay_us
        is_ordered = False
    if world.faults_are_on and _happens(&world.random_network, world.config.faults.reorder_ppm):
        is_ordered = False
    if world.faults_are_on and _happens(&world.random_network, world.config.faults.corrupt_ppm):
        frame.chunk = _corrupted(world, chunk)
        frame.is_corrupt = frame.chunk != NULL
    if not frame.is_corrupt:
        chunk_hold(chunk)
        frame.chunk = chunk
    frame.source = node.number
    frame.source_life = node.life
    memset(&event, 0, sizeof(SimEvent))
    event.time_ns = world.now_ns + 20_000 + next_random(&world.random_network) % (<uint64_t>most_us * 1000 + 1)
    if is_ordered:
        event.time_ns = node.arrivals_ns[target] = max(event.time_ns, node.arrivals_ns[target] + 1)
    else:
        world.counts.reordered += 1
    event.kind = SIM_FRAME
    event.node = target
    event.other = node.number
    event.data = frame
    schedule(world, &event)


# Keep one frame in 256 for long.
cdef void _remember(World* world, SimNode* node, uint32_t target, Chunk* chunk) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_network)
    cdef SimOldFrame* old = &world.old_frames[(draw >> 8) % SIM_OLD_FRAMES]
    if draw & 0xFF != 0:
        return
    if old.chunk != NULL:
        chunk_drop(old.chunk)
    chunk_hold(chunk)
    old.chunk = chunk
    old.said = world.said
    old.source = node.number
    old.target = target


cdef void network_replay(World* world, uint64_t draw) noexcept nogil:
    cdef SimOldFrame* old = &world.old_frames[draw % SIM_OLD_FRAMES]
    if old.chunk == NULL:
        return
    world.counts.replays += 1
    world.said = old.said
    _fly(world, &world.nodes[old.source], old.target, old.chunk, True, True)


cdef void network_release(World* world) noexcept nogil:
    cdef int i
    for i in range(SIM_OLD_FRAMES):
        if world.old_frames[i].chunk != NULL:
            chunk_drop(world.old_frames[i].chunk)


cdef void _send(void* self, uint32_t link, const uint8_t* head, size_t head_length,
                const Slice* records) noexcept nogil:
    cdef SimNode* node = <SimNode*>self
    cdef World* world = node.world
    cdef uint32_t target = node.engine.links.table[link].name[1] - c'0'
    cdef Chunk* chunk
    if node.is_cut or target >= world.config.nodes:
        return
    _check_said(world, node, head, records)
    world.counts.frames += 1
    if world.faults_are_on and _happens(&world.random_network, world.config.faults.drop_ppm):
        world.counts.dropped += 1
        return
    chunk = chunk_create(<uint32_t>head_length + records.length)
    if chunk == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    memcpy(chunk.bytes(), head, head_length)
    if records.length != 0:
        memcpy(chunk.bytes() + head_length, records.data, records.length)
    chunk.used = chunk.capacity
    if world.config.faults.replay_ppm != 0:
        _remember(world, node, target, chunk)
    _fly(world, node, target, chunk, False, False)
    if world.faults_are_on and _happens(&world.random_network, world.config.faults.duplicate_ppm):
        world.counts.duplicated += 1
        _fly(world, node, target, chunk, True, False)
    chunk_drop(chunk)


cdef NetworkPort network_port(SimNode* node) noexcept nogil:
    cdef NetworkPort port
    port.self = node
    port.send = _send
    return port


# Nobody there takes frames of this connection: its sender sees a reset and connects again.
cdef void _reset(World* world, uint32_t target, const SimFrame* frame) noexcept nogil:
    cdef SimNode* sender = &world.nodes[frame.source]
    cdef int link
    if not sender.is_up or sender.life != frame.source_life or not _hears(world, frame.source, target):
        return
    link = _link_to(sender, target)
    if link >= 0:
        engine_link_down(sender.engine, link, False)
    _plan_connect(world, sender, target, RECONNECT_NS)


# I18: of another incarnation, so also of another cluster. Before the founding nobody knows the other's yet.
cdef bint _is_for_another(const SimNode* node, const Slice* frame) noexcept nogil:
    cdef const FrameHeader* header = <const FrameHeader*>frame.data
    return header.type != FRAME_GENESIS and header.target != node.id


# The operator changes no membership while a disk waits to be whole again (sim/world/atlas):
#     1. he asks a node to drop the vote of another; the request waits in front of a leader that is paused,
#     2. meanwhile a third one's disk fails, as a minority of the three,
#     3. the leader goes on and takes the request: of two voters one has lost its disk, and nobody can be elected.
cdef bint _is_forbidden_now(World* world, const SimFrame* frame) noexcept nogil:
    return frame.said.type == MEMBERSHIP_PROPOSE and not world.config.is_ruin and not atlas_is_calm(world)


cdef void network_deliver(World* world, const SimEvent* event) noexcept nogil:
    cdef SimFrame* frame = <SimFrame*>event.data
    cdef SimNode* node = &world.nodes[event.node]
    cdef size_t total = 0
    cdef Slice bytes
    cdef status_t status
    cdef uint64_t received
    if not _hears(world, event.node, frame.source):
        pass                    # lost on the way
    elif _is_forbidden_now(world, frame):
        world.counts.changes_lost += 1
    elif not node.is_up or node.is_cut:
        _reset(world, event.node, frame)
    elif not node.inbound[frame.source].is_bound:
        _reset(world, event.node, frame)
    elif node.inbound_life[frame.source] != frame.source_life and not frame.is_replay:
        _reset(world, event.node, frame)
    else:
        bytes.chunk = frame.chunk
        bytes.data = frame.chunk.bytes()
        bytes.length = frame.chunk.used
        world.trace_hash = hash64(world.trace_hash, bytes.data, bytes.length)
        received = node.engine.counters.frames_received
        status = frame_decode(bytes.data, bytes.length, FRAME_BODY_BYTES_MAX, &total)
        if status == OK:
            status = engine_frame(node.engine, &node.inbound[frame.source], &bytes)
        if status == OK and not frame.is_corrupt and node.engine.counters.frames_received != received:
            proofs_heard(world, node, &frame.said)
        if node.engine.counters.frames_received != received and _is_for_another(node, &bytes):
            violate(world, VIOLATION_IDENTITY, node.number, frame.source, (<const FrameHeader*>bytes.data).target)
        if frame.is_corrupt and status == OK:
            violate(world, VIOLATION_CORRUPT_TAKEN, node.number, frame.source, bytes.length)
        if status != OK and not is_fatal(status):
            _hung_up(node, frame.source)
            _reset(world, event.node, frame)
    chunk_drop(frame.chunk)
    free(frame)


# --- partitions -------------------------------------------------------------------------------------------------------
# Frames of source reach target no more; target's connection to source is silent, not reset.
cdef void network_cut(World* world, uint32_t source, uint32_t target) noexcept nogil:
    world.hears[target] &= ~(<uint32_t>1 << source)
    if _is_rejected(world, source, target):
        _reject(world, &world.nodes[source], target)
        _reject(world, &world.nodes[target], source)


cdef void _reject(World* world, SimNode* node, uint32_t other) noexcept nogil:
    cdef int link
    if not node.is_up:
        return
    link = _link_to(node, other)
    if link >= 0 and node.engine.links.table[link].is_up:
        engine_link_down(node.engine, link, False)
    _hung_up(node, other)
    _plan_connect(world, node, other, RECONNECT_NS)


# TCP's keep-alive finds that the other end of this connection is gone; nobody could say so at the time.
cdef void _keep_alive(World* world, SimNode* node, uint32_t other) noexcept nogil:
    cdef SimNode* peer = &world.nodes[other]
    cdef int link = _link_to(node, other)
    if link < 0 or not node.engine.links.table[link].is_up:
        return
    if peer.is_up and peer.inbound[node.number].is_bound and peer.inbound_life[node.number] == node.life:
        return
    engine_link_down(node.engine, link, False)
    _plan_connect(world, node, other, RECONNECT_NS)


cdef void network_heal(World* world) noexcept nogil:
    cdef uint32_t node, other
    for node in range(world.config.nodes):
        world.hears[node] = <uint32_t>-1
    for node in range(world.config.nodes):
        for other in range(world.config.nodes):
            if other != node and world.nodes[node].is_up:
                _keep_alive(world, &world.nodes[node], other)
