"""Tokens of the etcd door: bodies.

    token   digits of: [revision of the proof, end, name, seal]
    seal    HMAC-SHA256(seed, label and what stands before the seal)

The same seed makes up salts: those are HMACs of names that anybody may ask for (server/authentication). The label is
longer than a name may be, so no salt is ever the seal of a token.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.old_digests cimport hexadecimal
from raftmeta.native.sha256 cimport are_equal_in_constant_time, hmac_sha256

cdef enum:
    LABEL_BYTES = PRINCIPAL_BYTES_MAX + 16
    BODY_BYTES_MAX = TOKEN_HEAD_BYTES + PRINCIPAL_BYTES_MAX

cdef const char* LABEL = b"raftmeta etcd token"


cdef void _seal(const uint8_t* seed, const uint8_t* body, uint32_t length, uint8_t* seal) noexcept nogil:
    cdef uint8_t[LABEL_BYTES + BODY_BYTES_MAX] signed_bytes
    memset(signed_bytes, 0, LABEL_BYTES)
    memcpy(signed_bytes, LABEL, 19)
    memcpy(&signed_bytes[0] + LABEL_BYTES, body, length)
    hmac_sha256(seed, SEED_BYTES, signed_bytes, <size_t>LABEL_BYTES + length, seal)


cdef uint32_t token_write(const uint8_t* seed, const Speaker* speaker, uint64_t now_ms, uint8_t* text) noexcept nogil:
    cdef uint8_t[BODY_BYTES_MAX + TOKEN_SEAL_BYTES] bytes
    cdef uint64_t end_ms = now_ms + TOKEN_MS
    cdef uint32_t length = TOKEN_HEAD_BYTES + <uint32_t>speaker.name_length
    memcpy(bytes, &speaker.since, sizeof(uint64_t))
    memcpy(&bytes[0] + sizeof(uint64_t), &end_ms, sizeof(uint64_t))
    memcpy(&bytes[0] + TOKEN_HEAD_BYTES, speaker.name, speaker.name_length)
    _seal(seed, bytes, length, &bytes[0] + length)
    hexadecimal(bytes, length + TOKEN_SEAL_BYTES, text)
    return 2 * (length + TOKEN_SEAL_BYTES)


cdef inline int _digit(uint8_t letter) noexcept nogil:
    if c"0" <= letter <= c"9":
        return letter - c"0"
    return letter - c"a" + 10 if c"a" <= letter <= c"f" else -1


cdef bint token_read(const uint8_t* seed, const Bytes* text, uint64_t now_ms, Speaker* speaker) noexcept nogil:
    cdef uint8_t[BODY_BYTES_MAX + TOKEN_SEAL_BYTES] bytes
    cdef uint8_t[TOKEN_SEAL_BYTES] seal
    cdef uint64_t end_ms
    cdef uint32_t length = text.length // 2
    cdef uint32_t i
    if (text.length & 1 or text.length > TOKEN_TEXT_BYTES_MAX
            or length <= <uint32_t>(TOKEN_HEAD_BYTES + TOKEN_SEAL_BYTES)):
        return False
    for i in range(length):
        if _digit(text.data[2 * i]) < 0 or _digit(text.data[2 * i + 1]) < 0:
            return False
        bytes[i] = <uint8_t>(_digit(text.data[2 * i]) << 4 | _digit(text.data[2 * i + 1]))
    length -= TOKEN_SEAL_BYTES
    _seal(seed, bytes, length, seal)
    memcpy(&end_ms, &bytes[0] + sizeof(uint64_t), sizeof(uint64_t))
    if not are_equal_in_constant_time(seal, &bytes[0] + length, TOKEN_SEAL_BYTES) or end_ms <= now_ms:
        return False
    memset(speaker, 0, sizeof(Speaker))
    memcpy(&speaker.since, bytes, sizeof(uint64_t))
    speaker.name_length = <uint8_t>(length - TOKEN_HEAD_BYTES)
    memcpy(speaker.name, &bytes[0] + TOKEN_HEAD_BYTES, speaker.name_length)
    return True
