# The target of a fuzzer behind the ZooKeeper door's port (tests/faces/fuzz).
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

cdef enum ZookeeperBelief:
    ZOOKEEPER_VECTOR = 8        # a vector has more or fewer elements than its count
    ZOOKEEPER_COMMAND = 9       # a command that the door made is none
    ZOOKEEPER_REFUSAL = 10      # an error was answered with a frame that is none

# All that a client sends on one connection: a connect request or a word of four letters, then requests.
cdef int fuzz_zookeeper(const uint8_t* data, size_t size) noexcept nogil
