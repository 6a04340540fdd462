# Connections that peers opened to us.
from libc.stdint cimport uint32_t

from raftmeta.net.transport_state cimport Transport

cdef void accepted_take_new(Transport* transport) noexcept nogil
cdef void accepted_readable(Transport* transport, uint32_t place) noexcept nogil
cdef void accepted_close(Transport* transport, uint32_t place) noexcept nogil
# Close connections that did not say HELLO in time.
cdef void accepted_tick(Transport* transport) noexcept nogil
