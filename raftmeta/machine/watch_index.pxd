# Which watches see a key: a hash table of single keys, and a tree of ranges.
#
# Watches of the same key or range form one group, so that a thousand of them cost one comparison. This module
# never looks into a watch, and never decides who gets what. Ranges stand in a treap ordered by (key, end), whose
# priorities are hashes of the range, so that its shape depends on its content alone; each node knows the range below it
# that reaches farthest, which bounds the search for all ranges around a key (interval tree: Cormen et al., Introduction
# to Algorithms, 14.3).
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Map64, Vec
from raftmeta.status cimport status_t

# The range [key, end); of one key only if end is key and a zero byte. Members are the caller's; a group without any is
# removed by the caller.
cdef struct WatchGroup:
    Vec[void*] members
    uint64_t hash               # of key and end; of the key alone if it is the only one
    WatchGroup* same_hash       # of one key only
    WatchGroup* left            # of many keys
    WatchGroup* right
    WatchGroup* farthest        # of this subtree, the range with the greatest end
    uint32_t key_length
    uint32_t end_length         # bytes of key and end follow
    uint8_t is_single

# A zeroed one is empty.
cdef struct WatchIndex:
    Map64[WatchGroup*] singles
    WatchGroup* ranges

# The group of [key, end), made if there is none; an empty end is that of the keyspace. NULL: no memory.
cdef WatchGroup* watch_index_group(WatchIndex* index, const uint8_t* key, uint32_t key_length, const uint8_t* end,
                                   uint32_t end_length) noexcept nogil
cdef void watch_index_remove(WatchIndex* index, WatchGroup* group) noexcept nogil
# Appends the groups that see the key. NO_MEMORY.
cdef status_t watch_index_find(WatchIndex* index, const uint8_t* key, uint32_t key_length,
                               Vec[WatchGroup*]* groups) noexcept nogil
cdef void watch_index_release(WatchIndex* index) noexcept nogil
