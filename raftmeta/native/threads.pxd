# Declarations of threads.hpp; the rules of use are on its first page.
from libc.stdint cimport uint32_t, uint64_t


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    int pthread_detach(pthread_t thread)


cdef extern from "threads.hpp" namespace "raftmeta" nogil:
    void futex_wait(uint32_t* word, uint32_t seen, uint64_t timeout_ns)
    void futex_wake(uint32_t* word, int count)

    cdef cppclass Turnstile:
        void enter()
        void leave()

    cdef cppclass Handoff[T]:
        T* head
        void push(T* element)
        bint is_empty()
        T* take()

    cdef cppclass Published[T]:
        T value
        void write(const T& fresh)
        bint read(T* into)

    ctypedef void* (*thread_body)(void*) noexcept nogil
    int thread_start(pthread_t* thread, thread_body body, void* argument, const char* name)
    bint thread_join(pthread_t thread, uint64_t timeout_ns)
    uint64_t boot_now_ns()
    uint64_t wall_now_ms()
