// The bytes behind coverage marks (marks.pxd): one per mark, for the whole process.
#pragma once

#include <cstdint>

namespace raftmeta {

constexpr unsigned MARKS_MAX = 256;

// Extension modules are libraries of their own. An inline variable that is visible is one object for all of them, since
// the dynamic linker keeps such symbols unique; a hidden one would be one per module.
__attribute__((visibility("default"))) inline uint8_t marks_reached[MARKS_MAX];

inline void mark(unsigned which) {
    __atomic_store_n(&marks_reached[which], uint8_t(1), __ATOMIC_RELAXED);
}

inline bool mark_is_reached(unsigned which) {
    return __atomic_load_n(&marks_reached[which], __ATOMIC_RELAXED) != 0;
}

inline void marks_clear() {
    for (unsigned which = 0; which < MARKS_MAX; ++which)
        __atomic_store_n(&marks_reached[which], uint8_t(0), __ATOMIC_RELAXED);
}

}  // namespace raftmeta
