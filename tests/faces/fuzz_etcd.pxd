# The target of a fuzzer behind the etcd door's transports (tests/faces/fuzz).
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

cdef enum EtcdBelief:
    ETCD_STATE = 21             # an invariant of the machine broke
    ETCD_ANSWER = 22            # an answer is no message of its method
    ETCD_BYTES = 23             # calls that are gone are still counted

# Calls of one client, one after the other: the number of a method, whether its stream stays open, a little-endian
# length of two bytes, and a message.
cdef int fuzz_etcd(const uint8_t* data, size_t size) noexcept nogil
