// Buggify points (buggify.pxd): who decides whether one fires, and for whom.
#pragma once

namespace raftmeta {

using BuggifyDecide = int (*)(unsigned which);

// One for all modules of the process, as with marks (marks.hpp). It stays null until the simulator is there.
__attribute__((visibility("default"))) inline BuggifyDecide buggify_decide;

inline bool buggify(unsigned which) {
    BuggifyDecide decide = __atomic_load_n(&buggify_decide, __ATOMIC_RELAXED);
    return __builtin_expect(decide != nullptr, 0) && decide(which) != 0;
}

inline void buggify_install(BuggifyDecide decide) {
    __atomic_store_n(&buggify_decide, decide, __ATOMIC_RELAXED);
}

// On whose behalf this thread runs now: worlds run on several threads, and beside them nodes of production. Only the
// module that decides may ask; another module would see a variable of its own.
inline void*& buggify_owner() {
    static thread_local void* owner;
    return owner;
}

}  // namespace raftmeta
