"""Frames to peers: header, body, records.

It decides nothing. It must never queue, wait, or repeat: a frame whose link is down is lost, and whoever
wanted it sent repeats what matters.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta._core cimport core_membership
from raftmeta.engine.promises cimport promises_hold_frame, promises_hold_message
from raftmeta.engine.state cimport Engine, Link, Links
from raftmeta.native.chunks cimport Slice
from raftmeta.raft.membership cimport membership_position
from raftmeta.raft.types cimport MEMBERS_MAX, Message, member_id_t
from raftmeta.status cimport OK
from raftmeta.wire.feed_messages cimport Feeder, Observed, feeders_encode, observers_encode
from raftmeta.wire.frame cimport (FRAME_FEEDERS, FRAME_GENESIS, FRAME_HEADER_BYTES, FRAME_MESSAGE, FRAME_OBSERVERS,
                                  FRAME_PING, FRAME_SNAPSHOT, FRAME_STATE, FrameHeader, FrameIdentity, FrameType,
                                  frame_encode)
from raftmeta.wire.genesis_messages cimport genesis_message_encode
from raftmeta.wire.messages cimport message_encode
from raftmeta.wire.snapshot_messages cimport SnapshotMessage, snapshot_message_encode
from raftmeta.wire.state_messages cimport StateMark, state_mark_encode


cdef int link_of_member(const Links* links, member_id_t id) noexcept nogil:
    cdef int i
    for i in range(MEMBERS_MAX):
        if links.table[i].is_used and links.table[i].id == id and not links.table[i].is_self:
            return i
    return -1


# Send engine.body, which has room for the header in front, and records behind it.
cdef void _send(Engine* engine, int place, FrameType type, const Slice* records) noexcept nogil:
    cdef Link* link = &engine.links.table[place]
    cdef FrameIdentity identity
    cdef Slice none
    if not promises_hold_frame(engine, place):
        return
    none.chunk = NULL
    none.data = NULL
    none.length = 0
    if records == NULL:
        records = &none
    identity.cluster = engine.cluster
    identity.peer = link.id
    identity.self = engine.id
    identity.peer_boot = link.boot
    link.sequence += 1
    frame_encode(<FrameHeader*>engine.body.data, type, &identity, engine.boot, link.sequence,
                 engine.body.data + FRAME_HEADER_BYTES, <uint32_t>(engine.body.size - FRAME_HEADER_BYTES),
                 records.data, records.length)
    engine.counters.frames_sent += 1
    link.bytes_out += engine.body.size + records.length
    engine.network.send(engine.network.self, place, engine.body.data, engine.body.size, records)


cdef void send_message(Engine* engine, const Message* message) noexcept nogil:
    cdef int place = link_of_member(&engine.links, message.target)
    if place < 0 or not engine.links.table[place].is_up:
        return      # a message that is lost is no harm: the protocol repeats what matters
    if not promises_hold_message(engine, message):
        return
    engine.body.clear()
    if (engine.body.resize(FRAME_HEADER_BYTES)
            and message_encode(message, engine.links.table[place].version, &engine.body) == OK):
        _send(engine, place, FRAME_MESSAGE, &message.records)


cdef void send_snapshot(Engine* engine, uint32_t link, const SnapshotMessage* message,
                        const Slice* piece) noexcept nogil:
    if not engine.links.table[link].is_used or not engine.links.table[link].is_up:
        return
    engine.body.clear()
    if engine.body.resize(FRAME_HEADER_BYTES) and snapshot_message_encode(message, &engine.body) == OK:
        _send(engine, link, FRAME_SNAPSHOT, piece)


cdef void send_mark(Engine* engine, const StateMark* mark) noexcept nogil:
    cdef int place
    for place in range(MEMBERS_MAX):
        if not engine.links.table[place].is_up:
            continue
        engine.body.clear()
        if engine.body.resize(FRAME_HEADER_BYTES) and state_mark_encode(mark, &engine.body) == OK:
            _send(engine, place, FRAME_STATE, NULL)


cdef void send_feeders(Engine* engine, int place, const Feeder* feeders, uint32_t count) noexcept nogil:
    if not engine.links.table[place].is_up:
        return
    engine.body.clear()
    if engine.body.resize(FRAME_HEADER_BYTES) and feeders_encode(feeders, count, &engine.body) == OK:
        _send(engine, place, FRAME_FEEDERS, NULL)


cdef void send_observers(Engine* engine, int place, const Observed* observers, uint32_t count) noexcept nogil:
    if not engine.links.table[place].is_up:
        return
    engine.body.clear()
    if engine.body.resize(FRAME_HEADER_BYTES) and observers_encode(observers, count, &engine.body) == OK:
        _send(engine, place, FRAME_OBSERVERS, NULL)


cdef void send_genesis(Engine* engine) noexcept nogil:
    cdef size_t i
    cdef int place
    for i in range(engine.genesis.messages.size):
        place = link_of_member(&engine.links, engine.genesis.messages.data[i].target)
        if place < 0 or not engine.links.table[place].is_up:
            continue
        engine.body.clear()
        if (engine.body.resize(FRAME_HEADER_BYTES)
                and genesis_message_encode(&engine.genesis.messages.data[i], &engine.body) == OK):
            _send(engine, place, FRAME_GENESIS, NULL)
    engine.genesis.messages.clear()


cdef void _ping(Engine* engine, int place) noexcept nogil:
    engine.body.clear()
    if engine.body.resize(FRAME_HEADER_BYTES):
        _send(engine, place, FRAME_PING, NULL)


cdef void send_death(Engine* engine, int place, member_id_t id, uint64_t boot) noexcept nogil:
    cdef uint64_t[2] told = [id, boot]
    if not engine.links.table[place].is_up:
        return
    engine.body.clear()
    if engine.body.resize(FRAME_HEADER_BYTES) and engine.body.append(<const uint8_t*>told, sizeof(told)):
        _send(engine, place, FRAME_PING, NULL)


cdef void send_pings(Engine* engine) noexcept nogil:
    cdef int place
    for place in range(MEMBERS_MAX):
        if engine.links.table[place].is_used and engine.links.table[place].is_up:
            _ping(engine, place)


# How a connection to an incarnation that is gone would live for ever, and keep its successor out:
#     1. a peer is wiped while this node cannot hear it, so that nothing tells this node that the connection died,
#     2. the log swaps the peer's old incarnation for the new one: no message is for the old one any more,
#     3. the new one's HELLO is refused, because the old one seems to answer still (engine/peers).
cdef void send_pings_to_strangers(Engine* engine) noexcept nogil:
    cdef int place
    for place in range(MEMBERS_MAX):
        if (engine.links.table[place].is_up
                and membership_position(core_membership(engine.core), engine.links.table[place].id) < 0):
            _ping(engine, place)
