"""Bodies of watch_purse.pxd."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

from raftmeta.native.atomics cimport add_shared, load_acquire, subtract_shared


cdef WatchPool* pool_create(uint64_t bytes_max) noexcept nogil:
    cdef WatchPool* pool = <WatchPool*>calloc(1, sizeof(WatchPool))
    if pool != NULL:
        pool.holders = 1
        pool.bytes_max = bytes_max
    return pool


cdef void pool_drop(WatchPool* pool) noexcept nogil:
    if pool != NULL and subtract_shared[uint64_t](&pool.holders, 1) == 0:
        free(pool)


cdef WatchPurse* purse_create(WatchPool* pool) noexcept nogil:
    cdef WatchPurse* purse = <WatchPurse*>calloc(1, sizeof(WatchPurse))
    if purse == NULL:
        return NULL
    purse.holders = 1
    purse.pool = pool
    add_shared[uint64_t](&pool.holders, 1)
    add_shared[uint64_t](&pool.purses, 1)
    return purse


cdef void purse_hold(WatchPurse* purse) noexcept nogil:
    if purse != NULL:
        add_shared[uint64_t](&purse.holders, 1)


cdef void purse_drop(WatchPurse* purse) noexcept nogil:
    if purse == NULL or subtract_shared[uint64_t](&purse.holders, 1) != 0:
        return
    subtract_shared[uint64_t](&purse.pool.purses, 1)
    pool_drop(purse.pool)
    free(purse)


cdef bint purse_has_room(const WatchPurse* purse, uint64_t bytes) noexcept nogil:
    cdef uint64_t held, pooled, most
    if purse == NULL:
        return True
    most = purse.pool.bytes_max
    held = load_acquire(&purse.bytes) + bytes
    pooled = load_acquire(&purse.pool.bytes) + bytes
    # Shares are made smaller when more come, so their sum alone is no bound.
    if pooled > most:
        return False
    return held <= most // (2 * load_acquire(&purse.pool.purses)) or (held <= most // 2 and pooled <= most // 2)


cdef void purse_pay(WatchPurse* purse, uint64_t bytes) noexcept nogil:
    if purse != NULL:
        add_shared(&purse.bytes, bytes)
        add_shared(&purse.pool.bytes, bytes)


cdef void purse_pay_back(WatchPurse* purse, uint64_t bytes) noexcept nogil:
    if purse != NULL:
        subtract_shared(&purse.bytes, bytes)
        subtract_shared(&purse.pool.bytes, bytes)
