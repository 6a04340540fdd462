// Words that two threads share, by the compiler's atomic builtins: leaves, pure, never block.
//
// "shared" is sequentially consistent: for protocols in which two threads each write one word and then read the
// other's. acquire / release: to hand over earlier writes.
#pragma once
#include <sched.h>
#include <stdint.h>

namespace raftmeta {

template <class T> inline T load_acquire(const T* word) noexcept {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
template <class T> inline void store_release(T* word, T value) noexcept {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
template <class T> inline T load_shared(const T* word) noexcept {
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}
template <class T> inline void store_shared(T* word, T value) noexcept {
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}
template <class T> inline T exchange_shared(T* word, T value) noexcept {
    return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
}
// The new value.
template <class T> inline T add_shared(T* word, T amount) noexcept {
    return __atomic_add_fetch(word, amount, __ATOMIC_SEQ_CST);
}
template <class T> inline T subtract_shared(T* word, T amount) noexcept {
    return __atomic_sub_fetch(word, amount, __ATOMIC_SEQ_CST);
}
// True: *word was `expected` and is `wanted` now.
template <class T> inline bool swap_shared(T* word, T expected, T wanted) noexcept {
    return __atomic_compare_exchange_n(word, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

// Let another thread run that is inside a short section.
inline void give_way() noexcept { sched_yield(); }

}  // namespace raftmeta
