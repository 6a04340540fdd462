# Declarations of containers.hpp; the rules of use are on its first page.
from libc.stdint cimport uint8_t, uint64_t


cdef extern from "containers.hpp" namespace "raftmeta" nogil:
    cdef cppclass Vec[T]:
        T* data
        size_t size
        size_t capacity
        bint reserve(size_t wanted)
        bint push(const T& value)
        bint append(const T* values, size_t count)
        bint resize(size_t count)
        void drop_front(size_t count)
        T& at(size_t position)
        T& back()
        void pop()
        void clear()
        void release()

    cdef cppclass Ring[T]:
        size_t size
        bint push(const T& value)
        T& at(size_t position)
        T& front()
        T& back()
        void pop_front()
        void drop_front(size_t count)
        void pop_back()
        void clear()
        void release()

    cdef cppclass Map64[V]:
        size_t size
        V* find(uint64_t key)
        V* insert(uint64_t key)
        bint erase(uint64_t key)
        size_t next(size_t position)
        uint64_t key_at(size_t position)
        V& value_at(size_t position)
        size_t end()
        void clear()
        void release()
