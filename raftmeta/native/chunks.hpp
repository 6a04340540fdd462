// Shared immutable bytes without copies: a Chunk is one allocation with a count of holders, a Slice a window in it.
//
// Bytes below `used` never change once a Slice shows them, so the disk, several sockets and the log read them at
// the same time. Counts are not atomic: only the thread that runs the engine touches them (the write thread and
// the sockets hand their slices back to it).
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace raftmeta {

constexpr uint32_t CHUNK_HUGE_PAGE_BYTES = 2 * 1024 * 1024;     // of x86-64 and aarch64

struct Chunk {
    uint32_t holders;
    uint32_t capacity;
    uint32_t used;
    uint32_t reserved;
    uint8_t* bytes() noexcept { return reinterpret_cast<uint8_t*>(this) + sizeof(Chunk); }
};

struct Slice {
    Chunk* chunk;   // NULL: the bytes are borrowed and outlive the call only
    uint8_t* data;
    uint32_t length;
};

// One holder, nothing used; NULL: no memory.
inline Chunk* chunk_create(uint32_t capacity) noexcept {
    Chunk* chunk = static_cast<Chunk*>(malloc(sizeof(Chunk) + capacity));
    if (chunk) { chunk->holders = 1; chunk->capacity = capacity; chunk->used = 0; chunk->reserved = 0; }
    return chunk;
}
// The same for the bytes of a whole file, read at once. A large one takes a page fault for each 2 MiB and not for each
// 4 KiB, and walks through its records meet fewer pages. Untouched bytes take no memory, except in the last page.
inline Chunk* chunk_create_image(uint32_t capacity) noexcept {
    if (capacity < 2 * CHUNK_HUGE_PAGE_BYTES) return chunk_create(capacity);
    size_t length = sizeof(Chunk) + static_cast<size_t>(capacity) + CHUNK_HUGE_PAGE_BYTES - 1;
    length -= length % CHUNK_HUGE_PAGE_BYTES;
    Chunk* chunk = static_cast<Chunk*>(aligned_alloc(CHUNK_HUGE_PAGE_BYTES, length));
    if (!chunk) return nullptr;
    // Advice: a kernel without huge pages refuses it, nothing is lost.
    madvise(static_cast<void*>(chunk), length, MADV_HUGEPAGE);
    chunk->holders = 1; chunk->capacity = capacity; chunk->used = 0; chunk->reserved = 0;
    return chunk;
}
inline void chunk_hold(Chunk* chunk) noexcept { if (chunk) ++chunk->holders; }
inline void chunk_drop(Chunk* chunk) noexcept { if (chunk && --chunk->holders == 0) free(chunk); }

}  // namespace raftmeta
