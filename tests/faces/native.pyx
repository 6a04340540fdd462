"""The containers and intrinsics as Python objects, for tests."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native cimport chunks, containers, intrinsics, sha256, text

cdef extern from "intrinsics.hpp" namespace "raftmeta" nogil:
    uint32_t crc32c_table(uint32_t seed, const void* data, size_t length)


# --- intrinsics -------------------------------------------------------------------------------------------------------
def crc32c_by_table(bytes data, *, uint32_t seed=0):
    return crc32c_table(seed, PyBytes_AS_STRING(data), len(data))


def hash64(bytes data, *, uint64_t seed=0):
    return intrinsics.hash64(seed, PyBytes_AS_STRING(data), len(data))


def sha256_of(bytes data):
    cdef uint8_t[32] out
    sha256.sha256(PyBytes_AS_STRING(data), len(data), out)
    return PyBytes_FromStringAndSize(<char*>out, 32)


def hmac_sha256(bytes key, bytes data):
    cdef uint8_t[32] out
    sha256.hmac_sha256(<const uint8_t*>PyBytes_AS_STRING(key), len(key), PyBytes_AS_STRING(data), len(data), out)
    return PyBytes_FromStringAndSize(<char*>out, 32)


def are_equal(bytes left, bytes right):
    return len(left) == len(right) and bool(sha256.are_equal_in_constant_time(
        <const uint8_t*>PyBytes_AS_STRING(left), <const uint8_t*>PyBytes_AS_STRING(right), len(left)))


def big64(bytes data):
    if len(data) < 8:
        raise ValueError("less than 8 bytes")
    return intrinsics.big64(PyBytes_AS_STRING(data))


def text_is_plain(bytes data):
    return bool(text.text_is_plain(<const uint8_t*>PyBytes_AS_STRING(data), len(data)))


def random_stream(uint64_t seed, int count):
    cdef uint64_t state = seed
    return [intrinsics.next_random(&state) for _ in range(count)]


# --- containers -------------------------------------------------------------------------------------------------------
cdef class VecHandle:
    cdef containers.Vec[uint64_t] vec

    def __cinit__(self):
        memset(&self.vec, 0, sizeof(self.vec))

    def __dealloc__(self):
        self.vec.release()

    def items(self):
        return [self.vec.data[i] for i in range(self.vec.size)]

    def reserve(self, size_t wanted):
        return bool(self.vec.reserve(wanted))

    def push(self, uint64_t value):
        return bool(self.vec.push(value))

    def push_own(self, size_t position):
        if position >= self.vec.size:
            raise IndexError(position)
        return bool(self.vec.push(self.vec.at(position)))

    def append(self, VecHandle other not None):
        if other is self:
            raise ValueError("a Vec is not appended to itself")
        return bool(self.vec.append(other.vec.data, other.vec.size))

    def resize(self, size_t count):
        return bool(self.vec.resize(count))

    def drop_front(self, size_t count):
        self.vec.drop_front(count)

    def pop(self):
        if not self.vec.size:
            raise IndexError("empty")
        value = self.vec.back()
        self.vec.pop()
        return value

    def clear(self):
        self.vec.clear()


cdef class RingHandle:
    cdef containers.Ring[uint64_t] ring

    def __cinit__(self):
        memset(&self.ring, 0, sizeof(self.ring))

    def __dealloc__(self):
        self.ring.release()

    def items(self):
        return [self.ring.at(i) for i in range(self.ring.size)]

    def push(self, uint64_t value):
        return bool(self.ring.push(value))

    def push_own(self, size_t position):
        if position >= self.ring.size:
            raise IndexError(position)
        return bool(self.ring.push(self.ring.at(position)))

    def pop_front(self):
        if not self.ring.size:
            raise IndexError("empty")
        value = self.ring.front()
        self.ring.pop_front()
        return value

    def pop_back(self):
        if not self.ring.size:
            raise IndexError("empty")
        value = self.ring.back()
        self.ring.pop_back()
        return value

    def drop_front(self, size_t count):
        if count > self.ring.size:
            raise IndexError(count)
        self.ring.drop_front(count)

    def clear(self):
        self.ring.clear()


cdef class Map64Handle:
    cdef containers.Map64[uint64_t] map

    def __cinit__(self):
        memset(&self.map, 0, sizeof(self.map))

    def __dealloc__(self):
        self.map.release()

    def __len__(self):
        return self.map.size

    def items(self):
        found = []
        cdef size_t position = self.map.next(0)
        while position < self.map.end():
            found.append((self.map.key_at(position), self.map.value_at(position)))
            position = self.map.next(position + 1)
        return found

    def find(self, uint64_t key):
        cdef uint64_t* value = self.map.find(key)
        return value[0] if value is not NULL else None

    def insert(self, uint64_t key, uint64_t value):
        cdef uint64_t* place = self.map.insert(key)
        if place is NULL:
            raise MemoryError
        before = place[0]
        place[0] = value
        return before

    def erase(self, uint64_t key):
        return bool(self.map.erase(key))

    def clear(self):
        self.map.clear()


# --- chunks -----------------------------------------------------------------------------------------------------------
cdef class ChunkHandle:
    cdef chunks.Chunk* chunk

    def __cinit__(self, uint32_t capacity):
        self.chunk = chunks.chunk_create(capacity)
        if self.chunk is NULL:
            raise MemoryError

    def __dealloc__(self):
        while self.holders:
            self.drop()

    @property
    def holders(self):
        return self.chunk.holders if self.chunk is not NULL else 0

    def hold(self):
        chunks.chunk_hold(self.chunk)

    def drop(self):
        cdef chunks.Chunk* chunk = self.chunk
        if chunk is NULL:
            raise ValueError("nobody holds it")
        if chunk.holders == 1:
            self.chunk = NULL
        chunks.chunk_drop(chunk)

    def append(self, bytes data):
        cdef size_t length = len(data)
        if self.chunk is NULL or length > self.chunk.capacity - self.chunk.used:
            raise ValueError("no room")
        memcpy(self.chunk.bytes() + self.chunk.used, PyBytes_AS_STRING(data), length)
        self.chunk.used += <uint32_t>length

    def content(self):
        if self.chunk is NULL:
            raise ValueError("nobody holds it")
        return PyBytes_FromStringAndSize(<const char*>self.chunk.bytes(), self.chunk.used)
