# Targets of a fuzzer behind and before TLS (tests/faces/fuzz). Their papers come from Python, once: fuzz_tls_use.
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t
from raftmeta.native.containers cimport Vec

cdef enum TlsBelief:
    TLS_NOT_PREPARED = 5        # nobody gave certificates
    TLS_LET_IN = 6              # bytes of a stranger ended a handshake
    TLS_OTHER_BYTES = 7         # what came out is not what went in

# Bytes of a stranger, before and within a handshake.
cdef int fuzz_strange(const uint8_t* data, size_t size) noexcept nogil
# The bytes go through a connection in parts and records as the input says; `out` has what arrived.
cdef int fuzz_carried(const uint8_t* data, size_t size, Vec[uint8_t]* out) noexcept nogil
