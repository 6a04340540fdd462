# Lines of an audit trail: JSON out of records, each chained to the line before (docs/formats.md "Audit trail").
#
# A line ends with its chain: SHA-256, or HMAC-SHA-256 with a key, of the chain before and all bytes of this line before
# `,"chain"`. A byte outside printable ASCII, and each of `"`, `\` and `%`, stands as %XX: any name and key is one text,
# and a line is one line. This module never sees a value, because a record has none; it never touches a file.
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.security.audit_queue cimport AUDIT_OPERATIONS, AuditTrail
from raftmeta.status cimport status_t

cdef enum:
    AUDIT_HASH_BYTES = 32
    FORMAT_KEY_HASH_BYTES = 16              # of a key, in lines that have its hash
    VERDICT_BYTES = 32
    AUDIT_STATUSES = 136

cdef struct AuditLines:
    Vec[uint8_t] origin                     # `"node":"...","cluster":"..."` of all lines
    uint64_t number                         # of the last line
    uint8_t[AUDIT_HASH_BYTES] chain         # of the last line
    bint has_chain_key
    uint8_t[AUDIT_HASH_BYTES] chain_key
    bint hashes_keys
    uint8_t[AUDIT_HASH_BYTES] keys_key
    char[AUDIT_STATUSES][VERDICT_BYTES] verdicts    # by status

cdef void audit_lines_release(AuditLines* lines) noexcept nogil
# Take records out of the rings, and append their lines to `out`, until it has bytes_max. NO_MEMORY: the rest waits.
cdef status_t audit_lines_take(AuditLines* lines, AuditTrail* trail, size_t bytes_max, Vec[uint8_t]* out) noexcept nogil
# A line of the writer's own. fields: more fields as JSON, without braces. NO_MEMORY.
cdef status_t audit_lines_add(AuditLines* lines, uint64_t wall_ms, const uint8_t* fields, size_t length,
                              Vec[uint8_t]* out) noexcept nogil
# The word for an operation.
cdef const char* audit_operation_name(int operation) noexcept nogil
# Append a text as it stands in lines. False: no memory.
cdef bint audit_text(const uint8_t* bytes, size_t length, Vec[uint8_t]* out) noexcept nogil
