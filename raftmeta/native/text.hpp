// May these bytes be shown to people as text? Names and addresses from others are taken only if they may.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace raftmeta {

// UTF-8 (RFC 3629, so no surrogates and no overlong forms) without control characters and line separators. An empty
// piece is text. Each codec says whether it may be empty, and how long it may be.
inline bool text_is_plain(const uint8_t* at, size_t length) noexcept {
    const uint8_t* end = at + length;
    while (at != end) {
        uint8_t first = *at++;
        if (first < 0x80) {
            if (first < 0x20 || first == 0x7F) return false;        // C0, DEL
            continue;
        }
        if (first < 0xC2 || first > 0xF4) return false;             // a continuation, an overlong form, above U+10FFFF
        int rest = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
        if (end - at < rest) return false;
        uint32_t code = first & (0x3F >> rest);
        for (int i = 0; i < rest; ++i) {
            uint8_t next = *at++;
            if ((next & 0xC0) != 0x80) return false;
            code = code << 6 | (next & 0x3F);
        }
        if (rest == 1 && code < 0xA0) return false;                 // C1
        if (rest == 2 && (code < 0x800 || (code >= 0xD800 && code < 0xE000))) return false;
        if (rest == 3 && (code < 0x10000 || code > 0x10FFFF)) return false;
        if (code == 0x2028 || code == 0x2029) return false;         // they end a line in many readers of logs
    }
    return true;
}

}  // namespace raftmeta
