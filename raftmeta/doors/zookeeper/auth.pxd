# Who speaks on a connection of the ZooKeeper door: the identities that a client proved. Pure.
#
# Schemes, as in ZooKeeper 3.9: `ip` (every connection has it), `digest` (user and password, told by AUTH), `sasl`
# (DIGEST-MD5), `x509` (the subject of the client's certificate), `super` (the digest of the setting, or the user
# `super` of SASL). It decides who speaks and what a list of rights may name, never what somebody may do (machine/znodes
# znode_allows). The machine gets the identities with each command; a list of rights names them by `auth`.
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.znodes cimport Identity

cdef enum:
    SPEAKER_IDENTITIES_MAX = 32
    SPEAKER_BYTES_MAX = 8 * 1024        # schemes and ids of one connection
    SASL_TOKEN_BYTES_MAX = 4 * 1024
    SASL_NONCE_BYTES = 16               # of random

# Made once by the door's owner; read by the door's thread.
cdef struct ZkSaslUser:
    Bytes name
    Bytes password

cdef struct ZkAuthSettings:
    Bytes super_digest                  # "super:<base64>" of DigestAuthenticationProvider.superDigest; empty: nobody
    const ZkSaslUser* users             # of DIGEST-MD5
    uint32_t user_count                 # 0: SASL is refused

cdef struct SpeakerIdentity:
    uint32_t at                         # in SpeakerNames
    uint16_t scheme_length              # scheme, then id
    uint16_t id_length

# One for each connection.
cdef struct ZkSpeaker:
    Vec[uint8_t] names
    Vec[SpeakerIdentity] identities

cdef void speaker_init(ZkSpeaker* speaker) noexcept nogil
cdef void speaker_release(ZkSpeaker* speaker) noexcept nogil
# Add what a client proved; again is no error. QUOTA_EXCEEDED: it has as many as it may. NO_MEMORY.
cdef status_t speaker_add(ZkSpeaker* speaker, const Bytes* scheme, const Bytes* id) noexcept nogil
# The address of the socket: 4 or 16 bytes, in network order. An IPv4 address in an IPv6 one is the IPv4 address.
cdef status_t speaker_add_ip(ZkSpeaker* speaker, const uint8_t* address, uint32_t length) noexcept nogil
# The subject of the client's certificate (RFC 2253).
cdef status_t speaker_add_x509(ZkSpeaker* speaker, const Bytes* subject) noexcept nogil
# A request AUTH: ZK_OK, or ZK_AUTH_FAILED; then the connection ends behind the answer.
cdef int32_t speaker_auth(ZkSpeaker* speaker, const ZkAuthSettings* settings, const Bytes* scheme,
                          const Bytes* token) noexcept nogil
# Windows into the speaker, valid until it changes. NO_MEMORY.
cdef status_t speaker_identities(const ZkSpeaker* speaker, Vec[Identity]* into) noexcept nogil

# `digest` of a list of rights: user, ':', base64 of SHA-1 of user:password. out: append. NO_MEMORY.
cdef status_t digest_of(const Bytes* user_and_password, Vec[uint8_t]* out) noexcept nogil
# May a list of rights name this id (AuthenticationProvider.isValid)? `auth` and `world` are the caller's.
cdef bint auth_id_is_valid(const Bytes* scheme, const Bytes* id) noexcept nogil

# --- SASL DIGEST-MD5, the server's side (RFC 2831): realm and host zk-sasl-md5, service zookeeper ---------------------
cdef enum ZkSaslState:
    SASL_NEW = 0
    SASL_CHALLENGED = 1
    SASL_DONE = 2
    SASL_FAILED = 3

cdef struct ZkSasl:
    uint8_t state                       # ZkSaslState; zero it to begin
    uint8_t[2 * SASL_NONCE_BYTES] nonce     # in hexadecimal digits

# One request SASL of this speaker: append the token of the answer. random: SASL_NONCE_BYTES, used by the first step.
# ZK_OK: answer with the token; sasl.state is SASL_DONE when the speaker has the new identity. ZK_AUTH_FAILED: answer
# it, and the connection ends. ZK_SYSTEM_ERROR: no memory.
cdef int32_t sasl_step(ZkSasl* sasl, ZkSpeaker* speaker, const ZkAuthSettings* settings, const Bytes* token,
                       const uint8_t* random, Vec[uint8_t]* out) noexcept nogil
