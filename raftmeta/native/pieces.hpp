// Large pieces of memory for the state. One lies ready, touched already.
//
// A page is given at its first touch: a huge page takes a quarter of a millisecond, and on a virtual machine whose host
// has to find it first 5 to 8 ms. All members of a cluster need the next one at the same entry, so that no quorum would
// hide it. So a thread of its own makes the next piece as soon as one is taken.
//
// They decide nothing. They never wait: a caller that finds no piece ready makes its own. They keep at most one ready,
// and make none before the first was asked for: a small state stays small.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "threads.hpp"

namespace raftmeta {

constexpr size_t PIECE_BYTES = 2 * 1024 * 1024;         // one huge page of x86-64 and aarch64
constexpr size_t PIECE_TOUCH_BYTES = 4096;              // the smallest page there is
constexpr int PIECE_NICENESS = 19;                      // any other thread goes first
constexpr uint64_t PIECE_PAUSE_NS = 60ull * 1000000000; // the bell always rings in between

// NULL: no memory. free() gives it back.
inline void* piece_create() noexcept {
    void* piece = aligned_alloc(PIECE_BYTES, PIECE_BYTES);
    // Advice: a kernel without huge pages refuses it, nothing is lost.
    if (piece) madvise(piece, PIECE_BYTES, MADV_HUGEPAGE);
    return piece;
}
inline void piece_touch(void* piece) noexcept {
    volatile uint8_t* bytes = static_cast<uint8_t*>(piece);
    for (size_t at = 0; at < PIECE_BYTES; at += PIECE_TOUCH_BYTES) bytes[at] = 0;
}

// A zeroed PieceStore is empty and has no thread; without its thread it stays empty.
struct PieceStore {
    void* ready;            // shared
    uint32_t bell;          // shared: counts requests; the thread sleeps on it
    uint32_t is_closing;    // shared
    bool is_running;
    pthread_t thread;

    // Any thread. NULL: none is ready.
    void* take() noexcept {
        void* piece = __atomic_exchange_n(&ready, static_cast<void*>(nullptr), __ATOMIC_ACQ_REL);
        ring();
        return piece;
    }
    // False: no thread could be started.
    bool start() noexcept {
        is_running = thread_start(&thread, run, this, "raftmeta-memory") == 0;
        return is_running;
    }
    // Nobody takes any more.
    void close() noexcept {
        if (is_running) {
            __atomic_store_n(&is_closing, 1u, __ATOMIC_SEQ_CST);
            ring();
            pthread_join(thread, nullptr);      // the thread is at most one piece away from its end
        }
        is_running = false;
        free(ready);
        ready = nullptr;
    }

private:
    void ring() noexcept {
        __atomic_fetch_add(&bell, 1u, __ATOMIC_SEQ_CST);
        futex_wake(&bell, 1);
    }
    void make() noexcept {
        void* piece = piece_create();
        if (!piece) return;     // the next caller finds out itself
        piece_touch(piece);
        __atomic_store_n(&ready, piece, __ATOMIC_RELEASE);
    }
    static void* make_behind_all(void* argument) noexcept {
        setpriority(PRIO_PROCESS, 0, PIECE_NICENESS);   // on Linux of this thread alone; if not, it is just as right
        static_cast<PieceStore*>(argument)->make();
        return nullptr;
    }
    // On a thread that lives for one piece. The thread that waits here has the priority of others:
    //     1. the process is killed on a machine that is busy
    //     2. its last thread gives the memory back and closes the sockets, at that thread's own priority
    //     3. behind all others that took seconds, and so long nobody could see that the process was gone.
    void make_beside() noexcept {
        pthread_t maker;
        if (thread_start(&maker, make_behind_all, this, "raftmeta-memory") == 0) pthread_join(maker, nullptr);
        else make();
    }
    static void* run(void* argument) noexcept {
        PieceStore* store = static_cast<PieceStore*>(argument);
        while (!__atomic_load_n(&store->is_closing, __ATOMIC_SEQ_CST)) {
            uint32_t seen = __atomic_load_n(&store->bell, __ATOMIC_SEQ_CST);
            if (seen != 0 && !__atomic_load_n(&store->ready, __ATOMIC_ACQUIRE)) store->make_beside();
            futex_wait(&store->bell, seen, PIECE_PAUSE_NS);
        }
        return nullptr;
    }
};

}  // namespace raftmeta
