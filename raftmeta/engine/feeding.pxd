# The engine's side of feeds (raft/feeds): who may feed an observer that is refused, and who follows through whom.
#
# The core knows incarnations; names and addresses stand in this engine's links. All that is heard here is a hint. A
# node that was named proves itself by its HELLO, and its feed by chain hashes; a report only shows in a status.
#
# Invariants: below.size <= OBSERVERS_MAX; `below` has no incarnation twice, and not this node.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.engine.state cimport Engine, Feeding
from raftmeta.raft.types cimport Message, member_id_t
from raftmeta.status cimport status_t

# A FEED that refuses leaves for that observer: tell it of others before, and keep its place among the links shortly.
cdef void feeding_refuses(Engine* engine, const Message* message) noexcept nogil
# FRAME_FEEDERS, FRAME_OBSERVERS of a peer. BAD_FIELD, BAD_LENGTH: no such message; NO_MEMORY.
cdef status_t feeding_heard_feeders(Engine* engine, member_id_t peer, const uint8_t* body,
                                    uint32_t length) noexcept nogil
cdef status_t feeding_heard_observers(Engine* engine, member_id_t peer, const uint8_t* body,
                                      uint32_t length) noexcept nogil
# Forget what an observer told that is fed here no more, and report to this node's own feeder.
cdef void feeding_tick(Engine* engine) noexcept nogil
cdef void feeding_release(Feeding* feeding) noexcept nogil
