// Memory that was freed goes back to the system only when the allocator is asked: it keeps what it once had.
#pragma once
#include <stdlib.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace raftmeta {

// Whole free pages of every arena. It takes about 0.2 ms for each MiB given back; other threads wait meanwhile only
// when they need the arena that it is at.
inline void give_back_memory() noexcept {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

}  // namespace raftmeta
