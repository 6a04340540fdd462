# The state hash: a sum, mod 2^128, of hashes of the parts of the state, so that the order of changes does not matter.
from raftmeta.native.intrinsics cimport Hash128

cdef inline Hash128 hash_plus(Hash128 left, Hash128 right) noexcept nogil:
    left.low += right.low
    left.high += right.high + (1 if left.low < right.low else 0)
    return left

cdef inline Hash128 hash_minus(Hash128 left, Hash128 right) noexcept nogil:
    left.high -= right.high + (1 if left.low < right.low else 0)
    left.low -= right.low
    return left
