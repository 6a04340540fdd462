"""The names in certificates, read and compared.

It decides which URIs are names of this project, byte by byte. It never guesses: another form names nobody, and letters
differ when their bytes do.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memcmp, memset

from raftmeta.native.text cimport text_is_plain
from raftmeta.status cimport BAD_FIELD, OK, status_t

cdef const char* SCHEME = b"raftmeta://"
cdef enum:
    SCHEME_BYTES = 11
    PEER_BYTES = 4
    CLIENT_BYTES = 6


cdef bint identity_is_ours(const uint8_t* uri, size_t length) noexcept nogil:
    return length >= SCHEME_BYTES and memcmp(uri, SCHEME, SCHEME_BYTES) == 0


cdef int _digit(uint8_t byte) noexcept nogil:
    if c'0' <= byte <= c'9':
        return byte - c'0'
    if c'A' <= byte <= c'F':
        return byte - c'A' + 10
    return byte - c'a' + 10 if c'a' <= byte <= c'f' else -1


cdef bint _stands_for_itself(uint8_t byte) noexcept nogil:
    return (c'A' <= byte <= c'Z' or c'a' <= byte <= c'z' or c'0' <= byte <= c'9'
            or byte == c'-' or byte == c'.' or byte == c'_' or byte == c'~')


# One part of the URI as a name of 1 to NAME_BYTES_MAX bytes of text.
cdef status_t _take_name(const uint8_t* part, size_t length, uint8_t* name, uint8_t* name_length) noexcept nogil:
    cdef size_t at = 0
    cdef uint8_t taken = 0
    cdef int high, low
    while at < length:
        if taken == NAME_BYTES_MAX:
            return BAD_FIELD
        if part[at] == c'%':
            if length - at < 3:
                return BAD_FIELD
            high, low = _digit(part[at + 1]), _digit(part[at + 2])
            if high < 0 or low < 0:
                return BAD_FIELD
            name[taken] = <uint8_t>(high << 4 | low)
            at += 3
        elif _stands_for_itself(part[at]):
            name[taken] = part[at]
            at += 1
        else:
            return BAD_FIELD
        taken += 1
    name_length[0] = taken
    return OK if taken != 0 and text_is_plain(name, taken) else BAD_FIELD


cdef bint _is(const uint8_t* part, size_t length, const char* word, size_t word_length) noexcept nogil:
    return length == word_length and memcmp(part, word, word_length) == 0


cdef status_t identity_parse(const uint8_t* uri, size_t length, CertifiedIdentity* into) noexcept nogil:
    cdef const uint8_t* rest = uri + SCHEME_BYTES
    cdef size_t first, second, i
    cdef bint is_peer, is_client
    cdef status_t status
    memset(into, 0, sizeof(CertifiedIdentity))
    if not identity_is_ours(uri, length):
        return BAD_FIELD
    length -= SCHEME_BYTES
    first = second = length
    for i in range(length):
        if rest[i] == c'/':
            if first == length:
                first = i
            elif second == length:
                second = i
            else:
                return BAD_FIELD
    if second == length:
        return BAD_FIELD
    is_peer = _is(rest + second + 1, length - second - 1, b"peer", PEER_BYTES)
    is_client = _is(rest + first + 1, second - first - 1, b"client", CLIENT_BYTES)
    if is_peer == is_client:
        return BAD_FIELD        # neither, or a node named "client" or a principal named "peer"
    status = _take_name(rest, first, into.cluster, &into.cluster_length)
    if status == OK and is_peer:
        status = _take_name(rest + first + 1, second - first - 1, into.name, &into.name_length)
    elif status == OK:
        status = _take_name(rest + second + 1, length - second - 1, into.name, &into.name_length)
    if status == OK:
        into.role = ROLE_PEER if is_peer else ROLE_CLIENT
    return status


cdef bint identity_is_of(const CertifiedIdentity* identity, IdentityRole role, const uint8_t* cluster,
                         uint8_t cluster_length) noexcept nogil:
    return (identity.role == role and identity.cluster_length == cluster_length
            and memcmp(identity.cluster, cluster, cluster_length) == 0)


cdef bint identity_has_name(const CertifiedIdentity* identity, const uint8_t* name, uint8_t length) noexcept nogil:
    return identity.name_length == length and memcmp(identity.name, name, length) == 0
