"""Bodies of loaded.pxd."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t

from raftmeta.check.interner cimport interner_number
from raftmeta.check.json_text cimport Text


cdef Text text_at(const TextColumn* column, int64_t row) noexcept nogil:
    cdef Text text
    text.bytes = column.bytes + column.offsets[row]
    text.length = <size_t>(column.offsets[row + 1] - column.offsets[row])
    return text


cdef int32_t loaded_key(Loaded* loaded, Text text) noexcept nogil:
    cdef int32_t key = interner_number(&loaded.keys, text.bytes, text.length)
    return key if key >= 0 and loaded_grow_keys(loaded) else -1


cdef bint loaded_grow_keys(Loaded* loaded) noexcept nogil:
    cdef size_t known = loaded.parent.size
    if not loaded.parent.resize(loaded.keys.texts.size) or not loaded.key_is_tainted.resize(loaded.keys.texts.size):
        return False
    while known < loaded.parent.size:
        loaded.parent.data[known] = <int32_t>known
        known += 1
    return True
