// MD5 (RFC 1321) and SHA-1 (FIPS 180-4), for foreign protocols that name them: leaves, pure. Nothing of ours trusts
// them.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace raftmeta {

static const uint32_t MD5_SINES[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
static const uint8_t MD5_TURNS[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

struct Md5 {
    static constexpr size_t BYTES = 16;
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};

    static uint32_t turned(uint32_t word, int by) noexcept { return word << by | word >> (32 - by); }

    void compress(const uint8_t* block) noexcept {
        uint32_t w[16], a = state[0], b = state[1], c = state[2], d = state[3];
        for (int i = 0; i < 16; ++i)
            w[i] = static_cast<uint32_t>(block[4 * i + 3]) << 24 | static_cast<uint32_t>(block[4 * i + 2]) << 16 |
                   static_cast<uint32_t>(block[4 * i + 1]) << 8 | block[4 * i];
        for (int i = 0; i < 64; ++i) {
            uint32_t mixed;
            int taken;
            switch (i / 16) {
                case 0: mixed = (b & c) | (~b & d), taken = i; break;
                case 1: mixed = (d & b) | (~d & c), taken = (5 * i + 1) & 15; break;
                case 2: mixed = b ^ c ^ d, taken = (3 * i + 5) & 15; break;
                default: mixed = c ^ (b | ~d), taken = (7 * i) & 15;
            }
            mixed += a + MD5_SINES[i] + w[taken];
            a = d, d = c, c = b;
            b += turned(mixed, MD5_TURNS[i / 16][i % 4]);
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    }
    static void put_bits(uint8_t* at, uint64_t bits) noexcept {
        for (int i = 0; i < 8; ++i) at[i] = static_cast<uint8_t>(bits >> (8 * i));
    }
    void end(uint8_t* out) const noexcept {
        for (int i = 0; i < 16; ++i) out[i] = static_cast<uint8_t>(state[i / 4] >> (8 * (i % 4)));
    }
};

struct Sha1 {
    static constexpr size_t BYTES = 20;
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

    void compress(const uint8_t* block) noexcept {
        uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
        for (int i = 0; i < 16; ++i)
            w[i] = static_cast<uint32_t>(block[4 * i]) << 24 | static_cast<uint32_t>(block[4 * i + 1]) << 16 |
                   static_cast<uint32_t>(block[4 * i + 2]) << 8 | block[4 * i + 3];
        for (int i = 16; i < 80; ++i) w[i] = Md5::turned(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        for (int i = 0; i < 80; ++i) {
            uint32_t mixed;
            switch (i / 20) {
                case 0: mixed = ((b & c) | (~b & d)) + 0x5a827999; break;
                case 1: mixed = (b ^ c ^ d) + 0x6ed9eba1; break;
                case 2: mixed = ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc; break;
                default: mixed = (b ^ c ^ d) + 0xca62c1d6;
            }
            mixed += Md5::turned(a, 5) + e + w[i];
            e = d, d = c, c = Md5::turned(b, 30), b = a, a = mixed;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
    }
    static void put_bits(uint8_t* at, uint64_t bits) noexcept {
        for (int i = 0; i < 8; ++i) at[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
    }
    void end(uint8_t* out) const noexcept {
        for (int i = 0; i < 20; ++i) out[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
    }
};

// Both pad alike: a bit, zeros, and the length in the last 8 bytes of a block.
template <class Digest>
inline void old_digest(const void* data, size_t length, uint8_t* out) noexcept {
    const uint8_t* at = static_cast<const uint8_t*>(data);
    Digest digest;
    uint8_t last[128] = {0};
    size_t whole = length / 64 * 64, rest = length - whole, padded = rest < 56 ? 64 : 128;
    for (size_t done = 0; done < whole; done += 64) digest.compress(at + done);
    if (rest != 0) memcpy(last, at + whole, rest);
    last[rest] = 0x80;
    Digest::put_bits(last + padded - 8, static_cast<uint64_t>(length) * 8);
    for (size_t done = 0; done < padded; done += 64) digest.compress(last + done);
    digest.end(out);
}

// out: 16 bytes.
inline void md5(const void* data, size_t length, uint8_t* out) noexcept { old_digest<Md5>(data, length, out); }
// out: 20 bytes.
inline void sha1(const void* data, size_t length, uint8_t* out) noexcept { old_digest<Sha1>(data, length, out); }

// With padding (RFC 4648 4); out has room for 4 bytes for each 3 begun. Returns their number.
inline size_t base64(const uint8_t* data, size_t length, uint8_t* out) noexcept {
    static const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t written = 0;
    for (size_t i = 0; i < length; i += 3) {
        uint32_t bits = static_cast<uint32_t>(data[i]) << 16;
        if (i + 1 < length) bits |= static_cast<uint32_t>(data[i + 1]) << 8;
        if (i + 2 < length) bits |= data[i + 2];
        for (size_t j = 0; j < 4; ++j)
            out[written++] = j <= length - i ? static_cast<uint8_t>(digits[bits >> (18 - 6 * j) & 63]) : '=';
    }
    return written;
}

// In small letters; out: two for each byte.
inline void hexadecimal(const uint8_t* data, size_t length, uint8_t* out) noexcept {
    for (size_t i = 0; i < length; ++i) {
        out[2 * i] = static_cast<uint8_t>("0123456789abcdef"[data[i] >> 4]);
        out[2 * i + 1] = static_cast<uint8_t>("0123456789abcdef"[data[i] & 15]);
    }
}

}  // namespace raftmeta
