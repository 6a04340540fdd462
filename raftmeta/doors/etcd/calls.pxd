# Calls of the etcd door: made by a transport, given to their handlers, answered.
#
# A handler that has an answer writes a message into door.reply between call_reply and call_send, and ends the call
# with call_end. A handler of a stream may send messages at any later time, until it ends the call. The functions for
# handlers stand first, those for transports behind them.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.doors.etcd.state cimport EtcdCall, EtcdConnection, EtcdDoor, EtcdHandler, EtcdTask
from raftmeta.engine.submission cimport Submission
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.msgpack cimport Reader

# A store that was never written has revision 0 here and 1 in etcd. Clients take a revision 0 for none, so each revision
# of the door is that of the node and one.
cdef inline uint64_t revision_told(uint64_t revision) noexcept nogil:
    return revision + 1

# In the place of a revision: a header without one.
cdef inline uint64_t no_revision() noexcept nogil:
    return ~<uint64_t>0

# --- handlers ---------------------------------------------------------------------------------------------------------
# door.reply is empty from here on.
cdef Vec[uint8_t]* call_reply(EtcdDoor* door) noexcept nogil
# The header of a reply as its first field. revision: the node's. False: no memory.
cdef bint call_header(EtcdDoor* door, Vec[uint8_t]* out, uint64_t revision) noexcept nogil
# door.reply is one message of the answer. is_made False: it could not be made for want of memory, and the call fails.
cdef void call_send(EtcdDoor* door, EtcdCall* call, bint is_made) noexcept nogil
# The last word of a call, once. text: it must stay where it is; NULL: none.
cdef void call_end(EtcdDoor* door, EtcdCall* call, int32_t code, const char* text) noexcept nogil
# call_end for a status of a command or a wish that was not carried out.
cdef void call_fail(EtcdDoor* door, EtcdCall* call, status_t status) noexcept nogil
# call_send and call_end with CODE_OK.
cdef void call_answer(EtcdDoor* door, EtcdCall* call, bint is_made) noexcept nogil
# `go` looks at it in each turn from here on, until call_rest or its end.
cdef void call_wait(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void call_rest(EtcdCall* call) noexcept nogil
# The message of a call that has only one. Valid until its end.
cdef Bytes call_message(const EtcdCall* call) noexcept nogil
# Submit door.desk.command for the call, as its part. False: it was not, and *status says why.
cdef bint call_command(EtcdDoor* door, EtcdCall* call, uint32_t part, bint is_urgent, status_t* status) noexcept nogil
# The same of a wish.
cdef bint call_ask(EtcdDoor* door, EtcdCall* call, uint32_t part, const Submission* what) noexcept nogil
# The body of a result: [status, revision, body] is passed up to the body. False: there is no result.
cdef bint task_result(const EtcdTask* task, Reader* reader) noexcept nogil
# The state of the call's revision and round can be read in this turn, and is pinned.
cdef bint call_pin(EtcdDoor* door, const EtcdCall* call) noexcept nogil

# --- transports -------------------------------------------------------------------------------------------------------
# A call begins; nothing is known of it yet. NULL: no memory, or the connection has as many as it may.
cdef EtcdCall* call_create(EtcdDoor* door, EtcdConnection* connection) noexcept nogil
# Its head has come. handler NULL: there is no such method.
cdef void call_open(EtcdDoor* door, EtcdCall* call, const EtcdHandler* handler) noexcept nogil
# Bytes of its messages, framed as gRPC does.
cdef void call_data(EtcdDoor* door, EtcdCall* call, const uint8_t* bytes, uint32_t length) noexcept nogil
# Its client sends no more.
cdef void call_half_close(EtcdDoor* door, EtcdCall* call) noexcept nogil
# It is over for its transport, which forgets it. Its memory goes when its last ticket is back.
cdef void call_close(EtcdDoor* door, EtcdCall* call) noexcept nogil
# The next call that has something for the transport; NULL: none.
cdef EtcdCall* calls_take_told(EtcdConnection* connection) noexcept nogil
# A part of `out` is gone.
cdef void call_sent(EtcdDoor* door, EtcdCall* call, uint32_t length) noexcept nogil

# --- the door ---------------------------------------------------------------------------------------------------------
# Those of the connection that wait.
cdef void calls_go(EtcdDoor* door, EtcdConnection* connection) noexcept nogil
# TASK_CALL is back; it is freed here.
cdef void calls_answered(EtcdDoor* door, EtcdTask* task) noexcept nogil
# Once in a while: calls that wait for too long for an answer of the cluster.
cdef void calls_expire(EtcdDoor* door, EtcdConnection* connection) noexcept nogil
cdef bint calls_have_room(const EtcdDoor* door, const EtcdConnection* connection) noexcept nogil
# The connection closes.
cdef void calls_drop(EtcdDoor* door, EtcdConnection* connection) noexcept nogil
# At the end: calls whose tickets will not come back.
cdef void calls_release(EtcdDoor* door) noexcept nogil
