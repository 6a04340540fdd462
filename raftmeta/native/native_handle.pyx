"""The checksum and the hash of the files, for those that Python writes and reads."""
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native cimport intrinsics


def crc32c(bytes data, *, uint32_t seed=0):
    return intrinsics.crc32c(seed, PyBytes_AS_STRING(data), len(data))


def hash128(bytes data, *, uint64_t seed=0):
    cdef intrinsics.Hash128 found = intrinsics.hash128(seed, PyBytes_AS_STRING(data), len(data))
    return found.low, found.high
