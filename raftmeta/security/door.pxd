# The way into OpenSSL, for every thread, until the process ends.

# True: call OpenSSL, then door_leave. False: OpenSSL is being cleaned up, and nobody calls it any more.
cdef bint door_enter() noexcept nogil
cdef void door_leave() noexcept nogil
