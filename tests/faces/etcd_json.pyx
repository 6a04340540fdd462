"""JSON of etcd's gateway and the schema, alone; etcd_json.pyi is the manual."""

from __future__ import annotations

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memset

from raftmeta.doors.etcd.gateway_json cimport json_to_message, message_to_json
from raftmeta.doors.etcd.schema cimport (KIND_BOOL, KIND_BYTES, KIND_ENUM, KIND_INT64, KIND_MESSAGE, KIND_STRING,
                                         KIND_UINT32, KIND_UINT64, SCHEMA_MESSAGES_MAX, EtcdField, schema_fields,
                                         schema_name)
from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Bytes

_KINDS = {
    <int>KIND_BYTES: "bytes",
    <int>KIND_STRING: "text",
    <int>KIND_BOOL: "bool",
    <int>KIND_INT64: "int64",
    <int>KIND_UINT64: "uint64",
    <int>KIND_UINT32: "uint32",
    <int>KIND_ENUM: "enum",
    <int>KIND_MESSAGE: "message",
}


cdef list _names(uint16_t of):
    names = []
    cdef const char* name = schema_name(of, 0)
    while name != NULL:
        names.append(name.decode())
        name = schema_name(of, <uint32_t>len(names))
    return names


cdef object _field(const EtcdField* field):
    kind = _KINDS[field.kind]
    of = _names(field.of) if kind == "enum" else field.of if kind == "message" else None
    return field.number, field.name.decode(), kind, bool(field.is_list), of


def messages():
    cdef uint32_t count, i
    cdef uint16_t number
    cdef const EtcdField* fields
    made = []
    for number in range(SCHEMA_MESSAGES_MAX):
        fields = schema_fields(number, &count)
        made.append([_field(&fields[i]) for i in range(count)])
    return made


def to_message(uint16_t message, bytes data):
    cdef Vec[uint8_t] out
    cdef size_t used = 0
    cdef const uint8_t* at = data
    cdef size_t length = len(data)
    cdef int status
    memset(&out, 0, sizeof(out))
    status = json_to_message(message, at, length, &used, &out)
    made = out.data[:out.size] if out.size else b""
    out.release()
    return status, used, made


def to_json(uint16_t message, bytes data):
    cdef Vec[uint8_t] out
    cdef Bytes bytes_
    cdef int status
    bytes_.data = data
    bytes_.length = <uint32_t>len(data)
    memset(&out, 0, sizeof(out))
    status = message_to_json(message, &bytes_, &out)
    made = out.data[:out.size] if out.size else b""
    out.release()
    return status, made
