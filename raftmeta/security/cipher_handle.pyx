"""The keys of a folder's files as a Python object."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.native.containers cimport Vec
from raftmeta.security.cipher cimport (FORMAT_KEY_BYTES, FORMAT_SEALING_BYTES, KeyRing, key_id_of, key_ring_add,
                                       key_ring_create, key_ring_current, key_ring_destroy, key_ring_has, key_ring_use,
                                       message_open, message_seal)
from raftmeta.status cimport NO_KEY, NO_MEMORY, OK, status_t

KEY_BYTES = FORMAT_KEY_BYTES
SEALING_BYTES = FORMAT_SEALING_BYTES

ctypedef status_t (*turn_t)(const KeyRing* ring, uint64_t key_id, const uint8_t* context, uint32_t context_length,
                            const uint8_t* message, uint32_t length, Vec[uint8_t]* out) noexcept nogil


def key_id(bytes key not None):
    _check(key)
    return key_id_of(<const uint8_t*>key)


cdef int _check(bytes key) except -1:
    if len(key) != FORMAT_KEY_BYTES:
        raise ValueError(f"a key has {FORMAT_KEY_BYTES} bytes, not {len(key)}")
    return 0


cdef class KeyRingHandle:
    def __cinit__(self, *, uint64_t seed=0):
        self.ring = key_ring_create(seed)
        if self.ring == NULL:
            raise MemoryError

    def __dealloc__(self):
        key_ring_destroy(self.ring)

    def add(self, bytes key not None):
        _check(key)
        if key_ring_add(self.ring, <const uint8_t*>key) != OK:
            raise MemoryError
        return key_id_of(<const uint8_t*>key)

    def use(self, uint64_t id):
        if key_ring_use(self.ring, id) == NO_KEY:
            raise KeyError(id)

    @property
    def current(self):
        return key_ring_current(self.ring)

    @property
    def ids(self):
        return tuple(self.ring.keys[i].id for i in range(self.ring.count))

    def __contains__(self, id):
        return key_ring_has(self.ring, id)

    def seal(self, uint64_t id, bytes context not None, bytes message not None):
        return _turned(message_seal, self.ring, id, context, message)

    def open(self, uint64_t id, bytes context not None, bytes message not None):
        return _turned(message_open, self.ring, id, context, message)


# The message sealed or opened, without the GIL.
cdef bytes _turned(turn_t turn, const KeyRing* ring, uint64_t id, bytes context, bytes message):
    cdef Vec[uint8_t] out
    cdef status_t status
    cdef const uint8_t* about = <const uint8_t*>context
    cdef const uint8_t* content = <const uint8_t*>message
    cdef uint32_t about_length = <uint32_t>len(context)
    cdef uint32_t length = <uint32_t>len(message)
    memset(<void*>&out, 0, sizeof(out))
    try:
        with nogil:
            status = turn(ring, id, about, about_length, content, length, &out)
        if status == NO_KEY:
            raise KeyError(id)
        if status == NO_MEMORY:
            raise MemoryError
        if status != OK:
            raise ValueError("the message is not what was sealed")
        return out.data[: out.size] if out.size else b""
    finally:
        out.release()
