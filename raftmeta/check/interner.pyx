"""Numbers for byte strings: values and keys are compared as numbers from here on."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from raftmeta.check.status cimport NONE
from raftmeta.native.intrinsics cimport hash64


cdef int32_t interner_number(Interner* interner, const uint8_t* bytes, size_t length) noexcept nogil:
    cdef uint64_t hash = hash64(0, bytes, length)
    cdef size_t mask, slot
    cdef int32_t number
    cdef InternedText* text
    cdef InternedText added
    if (interner.texts.size + 1) * 2 > interner.slots.size and not _grow(interner):
        return NONE
    mask = interner.slots.size - 1
    slot = <size_t>hash & mask
    while interner.slots.data[slot] != 0:
        number = interner.slots.data[slot] - 1
        text = &interner.texts.data[number]
        if (text.hash == hash and text.length == length
                and memcmp(interner.bytes.data + text.offset, bytes, length) == 0):
            return number
        slot = (slot + 1) & mask
    added.hash = hash
    added.offset = interner.bytes.size
    added.length = <uint32_t>length
    if not interner.bytes.append(bytes, length) or not interner.texts.push(added):
        return NONE
    number = <int32_t>(interner.texts.size - 1)
    interner.slots.data[slot] = number + 1
    return number


cdef bint _grow(Interner* interner) noexcept nogil:
    cdef size_t wanted = interner.slots.size * 2 if interner.slots.size else 64
    cdef size_t number, slot
    interner.slots.clear()
    if not interner.slots.resize(wanted):
        return False
    for number in range(interner.texts.size):
        slot = <size_t>interner.texts.data[number].hash & (wanted - 1)
        while interner.slots.data[slot] != 0:
            slot = (slot + 1) & (wanted - 1)
        interner.slots.data[slot] = <int32_t>number + 1
    return True


cdef void interner_release(Interner* interner) noexcept nogil:
    interner.texts.release()
    interner.bytes.release()
    interner.slots.release()
