# Who a certificate says its holder is: a name of this project in the certificate's URIs, and in nothing else.
#
#     raftmeta://<cluster>/<node>/peer            a node of that cluster
#     raftmeta://<cluster>/client/<principal>     a client of that cluster
#
# Names are in the form of RFC 3986: bytes other than A-Z a-z 0-9 - . _ ~ stand as %XX. `raftmeta://c/client/peer`
# could be either and is neither. There is no wildcard.
from libc.stdint cimport uint8_t

from raftmeta.raft.types cimport NAME_BYTES_MAX
from raftmeta.status cimport status_t

cdef enum IdentityRole:
    ROLE_NONE = 0
    ROLE_PEER = 1
    ROLE_CLIENT = 2

cdef struct CertifiedIdentity:
    uint8_t role                # IdentityRole
    uint8_t cluster_length
    uint8_t name_length
    uint8_t[NAME_BYTES_MAX] cluster
    uint8_t[NAME_BYTES_MAX] name    # of the node, or of the principal

# BAD_FIELD: it is not one of the two forms.
cdef status_t identity_parse(const uint8_t* uri, size_t length, CertifiedIdentity* into) noexcept nogil
# Is it a URI of this project at all? Others beside it mean nothing here.
cdef bint identity_is_ours(const uint8_t* uri, size_t length) noexcept nogil
cdef bint identity_is_of(const CertifiedIdentity* identity, IdentityRole role, const uint8_t* cluster,
                         uint8_t cluster_length) noexcept nogil
cdef bint identity_has_name(const CertifiedIdentity* identity, const uint8_t* name, uint8_t length) noexcept nogil
