# Ask for a cache line before its turn. Any address may be given, even an invalid one; nothing else happens.


cdef extern from *:
    void prefetch "__builtin_prefetch" (const void* address) noexcept nogil
    void prefetch_to_write "__builtin_prefetch" (const void* address, int is_write) noexcept nogil
