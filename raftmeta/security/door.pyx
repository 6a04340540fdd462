"""The way into OpenSSL: begun once, and closed when the process ends.

It decides when OpenSSL may be called no more. It never waits, but for threads that are inside, at the end.

The end of the process, in steps: exit() runs OpenSSL's own clean-up while native threads may still be in it.
    1. the clean-up calls _on_exit first, which closes the door (_is_gone) and waits until nobody is inside;
    2. a thread that comes later finds the door closed, and its connection is broken.
"""

from libc.stdint cimport uint32_t

from raftmeta.native.atomics cimport (add_shared, exchange_shared, give_way, load_shared, store_shared,
                                      subtract_shared)
from raftmeta.security cimport openssl

cdef uint32_t _is_started = 0       # shared
cdef uint32_t _is_gone = 0          # shared: OpenSSL is being cleaned up
cdef uint32_t _inside = 0           # shared: threads that are in OpenSSL

cdef void _on_exit() noexcept nogil:
    store_shared(&_is_gone, <uint32_t>1)
    while load_shared(&_inside) != 0:
        give_way()


cdef bint door_enter() noexcept nogil:
    if not exchange_shared(&_is_started, <uint32_t>1):
        openssl.OPENSSL_init_ssl(openssl.OPENSSL_INIT_NO_LOAD_CONFIG, NULL)
        openssl.OPENSSL_atexit(_on_exit)
    add_shared(&_inside, <uint32_t>1)
    if load_shared(&_is_gone):
        subtract_shared(&_inside, <uint32_t>1)
        return False
    return True


cdef void door_leave() noexcept nogil:
    subtract_shared(&_inside, <uint32_t>1)
