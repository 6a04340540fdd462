// Checksums and hashes that stand in files and on the wire, and byte order: leaves, pure, never throw.
//
// FORMAT_: the functions crc32c, hash64 and hash128 may never change for existing data (docs/formats.md,
// "Checksums", has their test vectors).
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif
#if defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace raftmeta {

// CRC-32C (Castagnoli, reflected 0x82F63B78), as in iSCSI (RFC 3720 B.4). `seed` is an earlier result, or 0.
inline uint32_t crc32c_table(uint32_t seed, const void* bytes, size_t length) noexcept {
    const uint8_t* p = static_cast<const uint8_t*>(bytes);
    uint32_t crc = ~seed;
    for (size_t i = 0; i < length; ++i) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1u)));
    }
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2")))
inline uint32_t crc32c_sse42(uint32_t seed, const void* bytes, size_t length) noexcept {
    const uint8_t* p = static_cast<const uint8_t*>(bytes);
    uint64_t crc = ~seed;
    while (length >= 8) { uint64_t word; memcpy(&word, p, 8); crc = _mm_crc32_u64(crc, word); p += 8; length -= 8; }
    uint32_t low = static_cast<uint32_t>(crc);
    while (length--) low = _mm_crc32_u8(low, *p++);
    return ~low;
}
#endif

inline uint32_t crc32c(uint32_t seed, const void* bytes, size_t length) noexcept {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) return crc32c_sse42(seed, bytes, length);
    return crc32c_table(seed, bytes, length);
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
    const uint8_t* p = static_cast<const uint8_t*>(bytes);
    uint32_t crc = ~seed;
    while (length >= 8) { uint64_t word; memcpy(&word, p, 8); crc = __crc32cd(crc, word); p += 8; length -= 8; }
    while (length--) crc = __crc32cb(crc, *p++);
    return ~crc;
#else
    return crc32c_table(seed, bytes, length);
#endif
}

inline uint64_t load64(const void* p) noexcept { uint64_t v; memcpy(&v, p, 8); return v; }
inline uint32_t load32(const void* p) noexcept { uint32_t v; memcpy(&v, p, 4); return v; }
inline uint64_t big64(const void* p) noexcept { return __builtin_bswap64(load64(p)); }

// 64 x 64 -> 128 bits, folded by xor: the mixing step of the "mum" family of hashes.
inline uint64_t fold(uint64_t a, uint64_t b) noexcept {
    unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

struct Hash128 { uint64_t low, high; };

// Two lanes over 16-byte steps; the tail is zero-padded and the length is mixed in at the end.
// Detects damage and divergence, not an adversary: there is no secret in it.
inline Hash128 hash128(uint64_t seed, const void* bytes, size_t length) noexcept {
    const uint64_t k0 = 0xA0761D6478BD642Full, k1 = 0xE7037ED1A0B428DBull, k2 = 0x8EBC6AF09C88C6E3ull,
                   k3 = 0x589965CC75374CC3ull;
    const uint8_t* p = static_cast<const uint8_t*>(bytes);
    uint64_t a = seed ^ k0, b = seed + k1;
    size_t rest = length;
    while (rest >= 16) {
        uint64_t x = load64(p), y = load64(p + 8);
        a = fold(a ^ x ^ k2, y ^ k3);
        b = fold(b ^ y ^ k0, x ^ k1) + a;
        p += 16; rest -= 16;
    }
    uint8_t tail[16] = {0};
    if (rest) memcpy(tail, p, rest);
    uint64_t x = load64(tail), y = load64(tail + 8);
    a = fold(a ^ x ^ k2, y ^ k3 ^ length);
    b = fold(b ^ y ^ k0, x ^ k1 ^ (length << 1)) + a;
    Hash128 out;
    out.low = fold(a ^ k1, b ^ k2);
    out.high = fold(b ^ k3, a ^ k0) + out.low;
    return out;
}
inline uint64_t hash64(uint64_t seed, const void* bytes, size_t length) noexcept {
    return hash128(seed, bytes, length).low;
}

// splitmix64: the next number of a seeded stream. Not for secrets.
inline uint64_t next_random(uint64_t* state) noexcept {
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

}  // namespace raftmeta
