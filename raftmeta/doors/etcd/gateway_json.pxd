# JSON as etcd's gateway speaks it, to and from the bytes of protobuf messages, by the schema.
#
# It decides how each field stands in JSON: bytes as base64, numbers of 64 bits as text, members of enums by name. It
# never looks into a key, and knows no connection. Names are those of the protocol, as in etcd (UseProtoNames); a
# request may have them in camel case, too. Fields that are unknown, and null, are passed over. A field with its
# default is not shown, because it does not stand in the message. Sources: the JSON mapping of proto3 (protobuf.dev);
# etcd-io/etcd 3.7.3 server/embed/serve.go (marshaler options).
from libc.stdint cimport uint8_t, uint16_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes

cdef enum:
    JSON_DEPTH_MAX = 24         # objects and lists inside each other: a transaction in a transaction has four

# Append the message that the JSON object at `bytes` is; *used: its bytes, with the space before it. INCOMPLETE: it is
# cut short, or there is only space. BAD_FIELD: no such message. NO_MEMORY. After a failure `out` is as before.
cdef status_t json_to_message(uint16_t message, const uint8_t* bytes, size_t length, size_t* used,
                              Vec[uint8_t]* out) noexcept nogil
# Append the JSON of a message, which this door encoded: lists of numbers are not packed. BAD_FIELD: the bytes are none.
cdef status_t message_to_json(uint16_t message, const Bytes* bytes, Vec[uint8_t]* out) noexcept nogil
# Append a text in quotes. False: no memory.
cdef bint json_text(const uint8_t* text, size_t length, Vec[uint8_t]* out) noexcept nogil
