"""Put, DeleteRange, Txn and Compact: bodies."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from raftmeta.doors.desk.desk cimport desk_pin_newest
from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.etcd.access cimport access_allows
from raftmeta.doors.etcd.calls cimport (call_answer, call_command, call_end, call_fail, call_header, call_message,
                                        call_pin, call_reply, call_rest, call_wait, task_result)
from raftmeta.doors.etcd.protobuf cimport PbReader, pb_next, pb_reader
from raftmeta.doors.etcd.state cimport CODE_INVALID_ARGUMENT
from raftmeta.doors.etcd.txn_answer cimport answer_delete, answer_needs_state, answer_put, answer_txn
from raftmeta.doors.etcd.txn_check cimport delete_fault, put_fault, txn_fault
from raftmeta.doors.etcd.txn_encode cimport encode_delete, encode_put, encode_txn
from raftmeta.machine.rights_state cimport RIGHT_ADMIN
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport COMPACTED, OK, status_t
from raftmeta.wire.commands cimport COMMAND_COMPACT, command_clear
from raftmeta.wire.msgpack cimport Reader


# door.desk.command is what the request comes to, if the status is OK. Deletes are urgent, as everywhere.
cdef void _submit(EtcdDoor* door, EtcdCall* call, status_t status, bint is_urgent) noexcept nogil:
    if call.is_done:
        return                  # for rights
    if status == OK and call_command(door, call, 0, is_urgent, &status):
        return
    call_fail(door, call, status)


cdef bint _is_fault(EtcdDoor* door, EtcdCall* call, const char* fault) noexcept nogil:
    if fault == NULL:
        return False
    call_end(door, call, CODE_INVALID_ARGUMENT, fault)
    return True


# The result of a command that was carried out. False: the call was ended.
cdef bint _result(EtcdDoor* door, EtcdCall* call, const EtcdTask* task, Reader* reader) noexcept nogil:
    if task.base.ticket.status == OK and task_result(task, reader):
        return True
    call_fail(door, call, task.base.ticket.status)
    return False


cdef void put_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    if not _is_fault(door, call, put_fault(message)):
        _submit(door, call, encode_put(door, call, message), False)


cdef void put_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef Reader reader
    if _result(door, call, task, &reader):
        call_answer(door, call, call_header(door, out, task.base.ticket.revision) and answer_put(out, &reader))


cdef void delete_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    if not _is_fault(door, call, delete_fault(message)):
        _submit(door, call, encode_delete(door, call, message), True)


cdef void delete_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef Bytes message = call_message(call)
    cdef Reader reader
    if _result(door, call, task, &reader):
        call_answer(door, call, call_header(door, out, task.base.ticket.revision)
                    and answer_delete(out, &message, &reader))


cdef void txn_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    if _is_fault(door, call, txn_fault(door, message)):
        return
    if not answer_needs_state(message):
        _submit(door, call, encode_txn(door, call, message), False)
        return
    # It reads at a revision that another member told, and this node may not have applied that revision yet.
    call.round = round_ask(&door.desk)
    call_wait(door, call)


cdef void txn_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Bytes message = call_message(call)
    if not call_pin(door, call):
        return
    call_rest(call)
    _submit(door, call, encode_txn(door, call, &message), False)


# The loop publishes the state before it answers.
cdef void txn_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef Bytes message = call_message(call)
    cdef Reader reader
    if not _result(door, call, task, &reader):
        return
    if answer_needs_state(&message):
        desk_pin_newest(&door.desk)
    call_answer(door, call, call_header(door, out, task.base.ticket.revision)
                and answer_txn(door, out, &message, &reader, task.base.ticket.revision))


# --- Compact ----------------------------------------------------------------------------------------------------------
cdef void compact_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef int64_t revision = 0
    while pb_next(&reader):
        if reader.field == 1:
            revision = <int64_t>reader.number
    if not access_allows(door, call, RIGHT_ADMIN, NULL, NULL):
        return
    # A floor that is there already is no error to the machine, but to etcd.
    if revision < 1 or <uint64_t>revision - 1 <= door.desk.status.machine.compacted:
        call_fail(door, call, COMPACTED)
        return
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_COMPACT
    door.desk.command.id = <uint64_t>revision - 1
    _submit(door, call, OK, False)


cdef void compact_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    if task.base.ticket.status != OK:
        call_fail(door, call, task.base.ticket.status)
        return
    call_answer(door, call, call_header(door, out, door.desk.status.machine.revision))
