# Tokens of the etcd door: a user's name, signed by the cluster for a while.
#
# Every node can tell whether a token is its cluster's, for its seal is made with the seed that all nodes have. A token
# needs no entry of the log. It ends after TOKEN_MS of the lease clock, or with the password that was proved for it.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.doors.desk.users cimport Speaker
from raftmeta.machine.rights_state cimport SEED_BYTES
from raftmeta.wire.commands cimport PRINCIPAL_BYTES_MAX, Bytes

cdef enum:
    TOKEN_MS = 300_000              # etcd's own time
    TOKEN_SEAL_BYTES = 32
    TOKEN_HEAD_BYTES = 16           # rights' revision of the proof, then the end on the lease clock; the name follows
    TOKEN_TEXT_BYTES_MAX = 2 * (TOKEN_HEAD_BYTES + PRINCIPAL_BYTES_MAX + TOKEN_SEAL_BYTES)

# The text of a token for this speaker, of TOKEN_TEXT_BYTES_MAX bytes at most. Its length.
cdef uint32_t token_write(const uint8_t* seed, const Speaker* speaker, uint64_t now_ms, uint8_t* text) noexcept nogil
# Whose token it is. False: it is none of the cluster, or its time is over.
cdef bint token_read(const uint8_t* seed, const Bytes* text, uint64_t now_ms, Speaker* speaker) noexcept nogil
