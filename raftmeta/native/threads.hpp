// Threads that meet: sleep on a word until it changes, hand a list over, publish a struct that readers copy.
//
// They never take a lock: a thread preempted inside would stop the node's. They never call Python and never throw.
#pragma once
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace raftmeta {

// Sleep while *word is `seen`, at most timeout_ns. Returns on a wake, a change, a signal or the time-out: look again.
inline void futex_wait(uint32_t* word, uint32_t seen, uint64_t timeout_ns) noexcept {
    struct timespec pause;
    pause.tv_sec = static_cast<time_t>(timeout_ns / 1000000000ull);
    pause.tv_nsec = static_cast<long>(timeout_ns % 1000000000ull);
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &pause, nullptr, 0);
}
inline void futex_wake(uint32_t* word, int count) noexcept {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// A lock for threads of the host among themselves; no thread of a node ever enters. A zeroed Turnstile is free.
struct Turnstile {
    uint32_t state;  // 0: free, 1: taken, 2: taken, and somebody may sleep

    void enter() noexcept {
        uint32_t seen = 0;
        if (__atomic_compare_exchange_n(&state, &seen, 1u, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
        while (__atomic_exchange_n(&state, 2u, __ATOMIC_ACQUIRE) != 0)
            syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, 2u, nullptr, nullptr, 0);
    }
    void leave() noexcept {
        if (__atomic_exchange_n(&state, 0u, __ATOMIC_RELEASE) == 2u) futex_wake(&state, 1);
    }
};

// Many producers, one consumer: elements of any struct T with a `next`. Producers push one by one, the consumer takes
// all of it in the order of pushing. A zeroed Handoff is empty. There is no ABA: nothing is popped singly.
template <class T>
struct Handoff {
    T* head;  // newest first

    void push(T* element) noexcept {
        T* seen = __atomic_load_n(&head, __ATOMIC_RELAXED);
        do {
            element->next = seen;
        } while (!__atomic_compare_exchange_n(&head, &seen, element, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    }
    bool is_empty() const noexcept { return __atomic_load_n(&head, __ATOMIC_SEQ_CST) == nullptr; }
    T* take() noexcept {
        T* taken = __atomic_exchange_n(&head, static_cast<T*>(nullptr), __ATOMIC_ACQUIRE);
        T* ordered = nullptr;
        while (taken) { T* older = taken->next; taken->next = ordered; ordered = taken; taken = older; }
        return ordered;
    }
};

// One writer, any number of readers: a T of whole 8-byte words without pointers, replaced at once. The writer never
// waits; a reader that met a replacement copies again (a sequence lock; words are copied atomically, so that neither
// side reads what the other half wrote). A zeroed Published holds a zeroed T.
template <class T>
struct Published {
    static_assert(sizeof(T) % 8 == 0 && alignof(T) == 8, "copied by words");
    uint64_t sequence;  // odd: being replaced
    T value;

    static void copy(void* into, const void* from) noexcept {
        uint64_t* target = static_cast<uint64_t*>(into);
        const uint64_t* source = static_cast<const uint64_t*>(from);
        for (size_t i = 0; i < sizeof(T) / 8; ++i)
            __atomic_store_n(target + i, __atomic_load_n(source + i, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    }
    void write(const T& fresh) noexcept {
        __atomic_store_n(&sequence, sequence + 1, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        copy(&value, &fresh);
        __atomic_store_n(&sequence, sequence + 1, __ATOMIC_RELEASE);
    }
    // False: it was replaced meanwhile, try again.
    bool read(T* into) const noexcept {
        uint64_t before = __atomic_load_n(&sequence, __ATOMIC_ACQUIRE);
        if (before & 1) return false;
        copy(into, &value);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        return __atomic_load_n(&sequence, __ATOMIC_RELAXED) == before;
    }
};

typedef void* (*thread_body)(void*);

// A thread that no signal of the host is ever delivered to. 0, or an errno.
inline int thread_start(pthread_t* thread, thread_body body, void* argument, const char* name) noexcept {
    sigset_t all, before;
    sigfillset(&all);
    int failed = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (failed) return failed;
    failed = pthread_create(thread, nullptr, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!failed) pthread_setname_np(*thread, name);
    return failed;
}
// False: it did not end within timeout_ns.
inline bool thread_join(pthread_t thread, uint64_t timeout_ns) noexcept {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = static_cast<uint64_t>(until.tv_nsec) + timeout_ns;
    until.tv_sec += static_cast<time_t>(ns / 1000000000ull);
    until.tv_nsec = static_cast<long>(ns % 1000000000ull);
    return pthread_timedjoin_np(thread, nullptr, &until) == 0;
}

// CLOCK_BOOTTIME: never steps back and counts the time in which the machine was suspended.
inline uint64_t boot_now_ns() noexcept {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000ull + static_cast<uint64_t>(now.tv_nsec);
}
inline uint64_t wall_now_ms() noexcept {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000ull + static_cast<uint64_t>(now.tv_nsec) / 1000000ull;
}

}  // namespace raftmeta
