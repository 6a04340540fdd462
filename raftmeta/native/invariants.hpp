// A belief that proved wrong is kept out of line.
//
// Inline, the compiler reads the two numbers of a belief as one vector, to store them as one if the belief is wrong.
// Often one of the two was stored just before. Then the vector waits until all stores before it have left for the
// cache, on the path where the belief holds.
#pragma once
#include <stdint.h>

namespace raftmeta {

[[gnu::noinline, gnu::cold, maybe_unused]] static void keep_broken(uint32_t* kept, uint64_t* kept_a, uint64_t* kept_b,
                                                                   uint32_t what, uint64_t a, uint64_t b) noexcept {
    if (*kept != 0) return;  // the first belief that was wrong counts
    *kept = what;
    *kept_a = a;
    *kept_b = b;
}

}  // namespace raftmeta
