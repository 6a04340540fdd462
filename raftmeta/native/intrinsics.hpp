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
#include <wmmintrin.h>
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
// x^power mod P, reflected as a CRC is: bit 31 is x^0. For constants.
constexpr uint32_t crc32c_power(uint32_t power) noexcept {
    uint32_t value = 0x80000000u;
    for (uint32_t i = 0; i < power; ++i) value = (value >> 1) ^ (0x82F63B78u & (0u - (value & 1u)));
    return value;
}

// Three parts of LANE bytes each. One instruction takes three clocks until the next may use what it gives, so three
// independent rows of them cost as much as one. Two are then moved to their places by carry-less products: a product of
// reflected values is one bit short (x), and crc32 multiplies by x^32, hence the 33 (V. Gopal et al., "Fast CRC
// Computation for iSCSI Polynomial Using CRC32 Instruction", Intel 2011).
template <size_t LANE>
__attribute__((target("sse4.2,pclmul")))
inline uint64_t crc32c_three(uint64_t crc, const uint8_t* p) noexcept {
    constexpr uint32_t far = crc32c_power(2 * LANE * 8 - 33), near = crc32c_power(LANE * 8 - 33);
    uint64_t second = 0, third = 0, word;
    for (size_t i = 0; i < LANE; i += 8) {
        memcpy(&word, p + i, 8); crc = _mm_crc32_u64(crc, word);
        memcpy(&word, p + LANE + i, 8); second = _mm_crc32_u64(second, word);
        memcpy(&word, p + 2 * LANE + i, 8); third = _mm_crc32_u64(third, word);
    }
    __m128i moved = _mm_xor_si128(_mm_clmulepi64_si128(_mm_cvtsi64_si128(crc), _mm_cvtsi64_si128(far), 0),
                                  _mm_clmulepi64_si128(_mm_cvtsi64_si128(second), _mm_cvtsi64_si128(near), 0));
    return _mm_crc32_u64(0, _mm_cvtsi128_si64(moved)) ^ third;
}

__attribute__((target("sse4.2,pclmul")))
inline uint32_t crc32c_instructions(uint32_t seed, const void* bytes, size_t length) noexcept {
    const uint8_t* p = static_cast<const uint8_t*>(bytes);
    uint64_t crc = ~seed;
    while (length >= 3072) { crc = crc32c_three<1024>(crc, p); p += 3072; length -= 3072; }
    while (length >= 288) { crc = crc32c_three<96>(crc, p); p += 288; length -= 288; }
    while (length >= 96) { crc = crc32c_three<32>(crc, p); p += 96; length -= 96; }
    while (length >= 8) { uint64_t word; memcpy(&word, p, 8); crc = _mm_crc32_u64(crc, word); p += 8; length -= 8; }
    uint32_t low = static_cast<uint32_t>(crc);
    if (length & 4) { uint32_t word; memcpy(&word, p, 4); low = _mm_crc32_u32(low, word); p += 4; }
    if (length & 2) { uint16_t word; memcpy(&word, p, 2); low = _mm_crc32_u16(low, word); p += 2; }
    if (length & 1) low = _mm_crc32_u8(low, *p);
    return ~low;
}
#endif

inline uint32_t crc32c(uint32_t seed, const void* bytes, size_t length) noexcept {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
        return crc32c_instructions(seed, bytes, length);
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

// As load64 and big64, of `length` bytes of at most 8; zeros stand for those behind. Nothing is copied: a load of 8
// bytes right behind the narrower stores of a copy waits until the stores have left for the cache.
inline uint64_t load_short(const void* bytes, size_t length) noexcept {
    const uint8_t* p = static_cast<const uint8_t*>(bytes);
    if (length >= 8) return load64(p);
    if (length >= 4)
        return load32(p) | static_cast<uint64_t>(load32(p + length - 4)) << (8 * (length - 4));
    if (length == 0) return 0;
    size_t middle = length / 2;  // of 1 to 3 bytes: with the first and the last all of them
    return p[0] | static_cast<uint64_t>(p[middle]) << (8 * middle)
           | static_cast<uint64_t>(p[length - 1]) << (8 * (length - 1));
}
inline uint64_t big_short(const void* p, size_t length) noexcept { return __builtin_bswap64(load_short(p, length)); }

// Zero the bytes of a struct. If the compiler knows the size, it takes a string instruction for memset, which needs
// longer to begin than these stores take.
inline void clear_struct(void* bytes, size_t size) noexcept {
    uint8_t* p = static_cast<uint8_t*>(bytes);
    for (; size >= 64; p += 64, size -= 64) memset(p, 0, 64);
    if (size & 32) { memset(p, 0, 32); p += 32; }
    if (size & 16) { memset(p, 0, 16); p += 16; }
    if (size & 8) { memset(p, 0, 8); p += 8; }
    for (size &= 7; size; --size) *p++ = 0;
}

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
    uint64_t x = load_short(p, rest), y = rest > 8 ? load_short(p + 8, rest - 8) : 0;
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
