# The target of a fuzzer behind the Kafka door's port (tests/faces/fuzz).
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

cdef enum KafkaBelief:
    KAFKA_STATE = 11            # an invariant of the machine broke
    KAFKA_ANSWER = 12           # the bytes that go out are no frames
    KAFKA_BYTES = 13            # requests that are gone are still counted

# All that a client sends on one connection, which need not prove a user.
cdef int fuzz_kafka(const uint8_t* data, size_t size) noexcept nogil
