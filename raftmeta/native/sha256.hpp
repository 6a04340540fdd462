// SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104), and a comparison that takes one time for all bytes: leaves, pure.
//
// For the proofs of clients and the lines of audit trails, a few blocks each. Bulk data goes through OpenSSL.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace raftmeta {

static const uint32_t SHA256_ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

struct Sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];

    static uint32_t turned(uint32_t word, int by) noexcept { return word >> by | word << (32 - by); }

    void begin() noexcept {
        static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
        memcpy(state, first, sizeof(state));
        bytes = 0;
    }
    void compress() noexcept {
        uint32_t w[64], s[8];
        for (int i = 0; i < 16; ++i)
            w[i] = static_cast<uint32_t>(block[4 * i]) << 24 | static_cast<uint32_t>(block[4 * i + 1]) << 16 |
                   static_cast<uint32_t>(block[4 * i + 2]) << 8 | block[4 * i + 3];
        for (int i = 16; i < 64; ++i) {
            uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[i - 7] +
                   (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
        }
        memcpy(s, state, sizeof(s));
        // The names move on by one in each round, and the words stay: after eight rounds all are where they began.
        for (int i = 0; i < 64; i += 8)
            for (int j = 0; j < 8; ++j) {
                uint32_t &h = s[(7 - j) & 7], &d = s[(3 - j) & 7];
                uint32_t a = s[-j & 7], b = s[(1 - j) & 7], c = s[(2 - j) & 7];
                uint32_t e = s[(4 - j) & 7], f = s[(5 - j) & 7], g = s[(6 - j) & 7];
                h += (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + SHA256_ROUNDS[i + j] +
                     w[i + j];
                d += h;
                h += (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            }
        for (int i = 0; i < 8; ++i) state[i] += s[i];
    }
    void add(const void* data, size_t length) noexcept {
        const uint8_t* at = static_cast<const uint8_t*>(data);
        while (length != 0) {
            size_t room = 64 - bytes % 64, taken = length < room ? length : room;
            memcpy(block + bytes % 64, at, taken);
            at += taken;
            length -= taken;
            bytes += taken;
            if (bytes % 64 == 0) compress();
        }
    }
    void end(uint8_t* out) noexcept {
        uint64_t bits = bytes * 8;
        uint8_t pad = 0x80;
        add(&pad, 1);
        for (pad = 0; bytes % 64 != 56;) add(&pad, 1);
        for (int shift = 56; shift >= 0; shift -= 8) {
            pad = static_cast<uint8_t>(bits >> shift);
            add(&pad, 1);
        }
        for (int i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
    }
};

inline void sha256(const void* data, size_t length, uint8_t* out) noexcept {
    Sha256 hash;
    hash.begin();
    hash.add(data, length);
    hash.end(out);
}

// A key of at most 64 bytes.
inline void hmac_sha256(const uint8_t* key, size_t key_length, const void* data, size_t length, uint8_t* out) noexcept {
    uint8_t pad[64];
    Sha256 hash;
    for (size_t i = 0; i < 64; ++i) pad[i] = (i < key_length ? key[i] : 0) ^ 0x36;
    hash.begin();
    hash.add(pad, 64);
    hash.add(data, length);
    hash.end(out);
    for (size_t i = 0; i < 64; ++i) pad[i] ^= 0x36 ^ 0x5c;
    hash.begin();
    hash.add(pad, 64);
    hash.add(out, 32);
    hash.end(out);
}

inline bool are_equal_in_constant_time(const uint8_t* left, const uint8_t* right, size_t length) noexcept {
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < length; ++i) difference = difference | (left[i] ^ right[i]);
    return difference == 0;
}

}  // namespace raftmeta
