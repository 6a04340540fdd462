# Messages of this member, held until they are durable: it says nothing before (ARCHITECTURE "What is durable when").
#
#     a message of a term            waits until this disk has that term, and the vote cast in it (paper Figure 2)
#     an accepting APPEND_RESPONSE   also waits until this disk has the records that it acknowledges
#     PRE_VOTE and its grant         claim nothing and never wait (thesis 9.6); nor does a message without a term
#
# A message that waits names its write. A change of term drops the messages of the old term: their receivers have no
# right to them any more, and any message may be lost.
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.raft.ready cimport TraceType
from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport Message, MessageType, member_id_t
from raftmeta.status cimport status_t

# A zeroed message from this member in its term.
cdef void message_init(Core* core, Message* message, MessageType type, member_id_t target) noexcept nogil
# The same for an answer of a member, with its free room and whether its log is damaged.
cdef void response_init(Core* core, Message* message, MessageType type, member_id_t target) noexcept nogil
# Send now or hold. Takes over the hold on message.records.chunk.
cdef void outbox_send(Core* core, const Message* message) noexcept nogil
cdef void outbox_on_persisted(Core* core, uint64_t write_id) noexcept nogil
cdef void outbox_drop_held(Core* core) noexcept nogil
cdef void outbox_drop_sent(Core* core) noexcept nogil
# Are the term and vote of this member on its disk?
cdef bint is_hard_state_durable(Core* core) noexcept nogil
cdef void trace(Core* core, TraceType type, uint64_t a, uint64_t b) noexcept nogil
# Answer a read: to a caller here (source 0) or to the member that asked.
cdef void answer_read(Core* core, member_id_t source, uint64_t context, uint64_t index, status_t status) noexcept nogil
