# Declarations of atomics.hpp; what "shared" means is on its first page.


cdef extern from "atomics.hpp" namespace "raftmeta" nogil:
    T load_acquire[T](const T* word)
    void store_release[T](T* word, T value)
    T load_shared[T](const T* word)
    void store_shared[T](T* word, T value)
    T exchange_shared[T](T* word, T value)
    T add_shared[T](T* word, T amount)
    T subtract_shared[T](T* word, T amount)
    bint swap_shared[T](T* word, T expected, T wanted)
    void give_way()
