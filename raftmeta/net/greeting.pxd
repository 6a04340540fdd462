# HELLO frames and refusals, the first frames on every connection.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.net.stream cimport Stream
from raftmeta.net.transport_state cimport Transport
from raftmeta.status cimport status_t
from raftmeta.wire.hello cimport Hello

# Say HELLO on a fresh connection, or say why it is about to close. False: the frame could not be written whole.
cdef bint greeting_send_hello(Transport* transport, Stream* stream, uint32_t link) noexcept nogil
cdef bint greeting_send_refusal(Transport* transport, Stream* stream, status_t reason) noexcept nogil
# Read a sound frame as HELLO. BAD_FIELD: it is another frame; else the status of hello_decode.
cdef status_t greeting_read_hello(const uint8_t* frame, Hello* hello) noexcept nogil
# Read the answer to our HELLO: OK with their HELLO, or the status of their refusal.
cdef status_t greeting_read_reply(const uint8_t* frame, Hello* hello, bint* was_refused) noexcept nogil
