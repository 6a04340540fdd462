# Commands and their results: the payload of an ENTRY_COMMAND, and the answer that its caller gets.
#
# msgpack arrays, decoded by schema with caps before any allocation. The bytes equal those of the msgpack package
# (use_bin_type=True); any other encoding of the same value is refused. docs/formats.md "Commands" and "Results" list
# every field. A command changes all that it names or, refused, nothing. An entry that changed a key makes one revision.
# This module knows what a command is and never what a key holds.
#
# The decoder guarantees, so that the machine need not check again:
#   keys are 1 .. KEY_BYTES_MAX bytes (bounds of ranges may be empty), with room for the digits of OP_KEY_FROM_RESULT;
#   flags are known to the operation, fields that it does not have are zero; OP_KEEP_VALUE comes with an empty value,
#   OP_KEEP_LEASE with lease 0; OP_KEY_FROM_RESULT names an OP_ADD that stands earlier in the same list;
#   operations and compares together are at most OPS_MAX, transactions nest at most TXN_DEPTH_MAX deep (the root is 1);
#   expected revisions, sequences, COMPACT revisions, times, pointers, offsets and totals are at most 2^63 - 1; ids may
#   use all 64 bits;
#   without a session there is no sequence; lowest_unanswered <= sequence;
#   a member comes with a boot of 1 .. 2^63 - 1;
#   a principal has 1 .. PRINCIPAL_BYTES_MAX bytes, and only SPEAKER_CLIENT has one; nothing spoken is spoken again.
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport KEY_BYTES_MAX, Bytes
from raftmeta.wire.znodes cimport Identity, ZnodeOp

cdef enum:
    COMMAND_BYTES_MAX = 6 * 1024 * 1024     # of one payload: fits a frame, as a record and as a PROPOSE
    CHANGES_MAX = 10_000        # keys changed by one entry
    OPS_MAX = 10_000            # operations and compares of one transaction, nested ones counted
    TXN_DEPTH_MAX = 4
    LEASES_MAX = 10_000         # leases (or sessions) of one keep-alive or expire
    NUMBER_DIGITS = 20          # digits that OP_KEY_FROM_RESULT puts behind the key
    PRINCIPAL_BYTES_MAX = 64

# FORMAT_: numbers stand in the log.
cdef enum CommandKind:
    COMMAND_KEYS = 1            # one Txn; a single put, create, update, delete, range delete is a Txn of one operation
    COMMAND_LEASE_GRANT = 2     # lease id (0: choose), ttl_ms; data = owner's note
    COMMAND_LEASE_REVOKE = 3
    COMMAND_LEASE_KEEP_ALIVE = 4    # leases[]
    COMMAND_LEASE_EXPIRE = 5    # leases[] with deadlines; by the leader only, re-checked at apply
    COMMAND_SESSION_OPEN = 6    # session id chosen by the opener (random), ttl_ms, window; from feature level 7 a node
                                # adds member and boot, so that the session ends with its process
    COMMAND_SESSION_CLOSE = 7
    COMMAND_SESSION_EXPIRE = 8  # like LEASE_EXPIRE for sessions
    COMMAND_COMPACT = 9         # history floor moves to revision
    COMMAND_FEATURE_LEVEL = 10
    COMMAND_USER = 11           # machine name, data; COMMAND_INVALID below feature level 2, as the next
    COMMAND_USER_DUMP = 12      # digest, machine name, data = a part, pointer, offset, total (machine/user_machines)
    COMMAND_RIGHTS = 14         # verb, name, data (machine/rights); COMMAND_INVALID below feature level 3
    COMMAND_ZNODES = 15         # id = owner, pointer = after, name = root, data = the request (wire/znodes);
                                # COMMAND_INVALID below feature level 4
    COMMAND_GROUPS = 16         # id = lease of the member (JOIN), name = key of the group, data = the request
                                # (wire/groups); COMMAND_INVALID below feature level 5. With ttl_ms (id is 0) a JOIN
                                # grants the lease of its member, from feature level 6
    COMMAND_TOPICS = 18         # pointer = after, name = root of the topics, data = the request (wire/topics);
                                # COMMAND_INVALID below feature level 6
    COMMAND_RECORDS = 19        # pointer = after, name = key of the log, data = the request (wire/records);
                                # COMMAND_INVALID below feature level 6
    COMMAND_PROCESS_END = 20    # member, boot: those of its processes are gone, up to this boot; COMMAND_INVALID below
                                # feature level 7

# FORMAT_: in the place of a command's kind: a speaker, a principal, a rights' revision, and then the command as bytes.
cdef enum:
    COMMAND_SPOKEN = 13         # COMMAND_INVALID below feature level 3

# FORMAT_: on whose behalf a command is spoken.
cdef enum Speaker:
    SPEAKER_NONE = 0            # not spoken: the bytes are the command itself
    SPEAKER_NODE = 1            # a node for itself; without a principal
    SPEAKER_CLIENT = 2          # a node for a client: `principal` proved its name to that node

cdef enum OpKind:
    OP_PUT = 1                  # upsert
    OP_CREATE = 2               # refused KEY_EXISTS
    OP_UPDATE = 3               # refused KEY_MISSING; with expected_revision != 0 also COMPARE_FAILED
    OP_DELETE = 4               # refused KEY_MISSING only with OP_MUST_EXIST
    OP_DELETE_RANGE = 5         # [key, end)
    OP_GET = 6
    OP_RANGE = 7                # [key, end), limit
    OP_ADD = 8                  # counter: 8-byte value as signed 64-bit big-endian... result is the new number
    OP_TXN = 9                  # nested: txn

cdef enum OpFlags:
    OP_WANT_PREVIOUS = 1        # result carries the previous record
    OP_MUST_EXIST = 2
    OP_KEEP_LEASE = 4           # PUT / UPDATE: leave the lease as it is
    OP_KEY_FROM_RESULT = 8      # the number of an earlier OP_ADD of this txn follows the key, 20 decimal digits
    OP_KEEP_VALUE = 16          # PUT / UPDATE: only the lease changes

cdef enum CompareTarget:
    COMPARE_VERSION = 1
    COMPARE_CREATE_REVISION = 2
    COMPARE_MOD_REVISION = 3
    COMPARE_VALUE = 4
    COMPARE_LEASE = 5
    COMPARE_RANGE_EMPTY = 6     # [key, end) holds no key

cdef enum CompareFlags:
    # Added to a target but COMPARE_RANGE_EMPTY: every key of [key, end) compares so, or a missing key does if there is
    # none. COMMAND_INVALID below feature level 7.
    COMPARE_OF_ALL = 16

cdef enum CompareResult:
    COMPARE_EQUAL = 1
    COMPARE_NOT_EQUAL = 2
    COMPARE_LESS = 3
    COMPARE_GREATER = 4

cdef struct Op:
    uint8_t kind                # OpKind
    uint8_t flags               # OpFlags
    uint16_t result_from        # OP_KEY_FROM_RESULT: position of the earlier operation in its list
    uint32_t limit              # OP_RANGE, 0: no limit
    uint32_t txn                # OP_TXN: position in Command.txns
    Bytes key
    Bytes end                   # empty: to the end of the keyspace
    Bytes value
    uint64_t lease              # 0: none
    uint64_t expected_revision  # OP_UPDATE, OP_DELETE; 0: any
    int64_t number              # OP_ADD

cdef struct Compare:
    uint8_t target
    uint8_t result
    Bytes key
    Bytes end
    Bytes value
    uint64_t number

cdef struct Txn:
    uint32_t compare_first      # in Command.compares
    uint32_t compare_count
    uint32_t then_first         # in Command.ops
    uint32_t then_count
    uint32_t else_first
    uint32_t else_count

# Proof that a lead, lock, membership or lease is still held: the key exists with exactly this create revision, and its
# lease, if the store attached one, has not expired. The machine checks it before anything else of the command.
cdef struct Fence:
    bint is_present
    Bytes key
    uint64_t create_revision

cdef struct LeaseItem:
    uint64_t lease
    uint64_t deadline_ms        # LEASE_EXPIRE: the deadline that the leader saw, on the lease clock

cdef struct Command:
    uint8_t kind                # CommandKind
    uint64_t session            # 0: no session, no deduplication (only COMMAND_* of the engine itself)
    uint64_t sequence           # from 1 in its session; 0: not deduplicated (keep-alives, opening)
    uint64_t lowest_unanswered  # results below it may be forgotten
    Fence fence
    uint64_t id                 # lease or session id, revision (COMPACT), level (FEATURE_LEVEL), digest (USER_DUMP),
                                # verb (RIGHTS), owner (ZNODES; lease of the session, 0: none),
                                # lease of the member (GROUPS)
    uint64_t ttl_ms
    uint32_t window             # SESSION_OPEN: results kept at most
    uint64_t member             # SESSION_OPEN, PROCESS_END: incarnation, and
    uint64_t boot               # ... boot number of a process; 0 and 0: none
    Bytes name                  # USER, USER_DUMP: name of the machine; RIGHTS: of a user or role; ZNODES: root of
                                # the tree; GROUPS: key of the group; TOPICS: root of the topics; RECORDS: key of a log
    Bytes data
    uint64_t pointer            # USER_DUMP: index of the last command in the dump; ZNODES, TOPICS, RECORDS: sequence of
                                # the same session that must have been applied before, 0: none
    uint64_t offset             # ... of this part in it
    uint64_t total              # ... its bytes
    uint8_t speaker             # Speaker
    Bytes principal             # SPEAKER_CLIENT: its name
    uint64_t rights_revision    # ... under which it was authenticated
    bint is_multi               # ZNODES: the answer is that of a multi
    # Arenas, reused between decodes. Position 0 of txns is the root transaction of COMMAND_KEYS.
    Vec[Txn] txns
    Vec[Compare] compares
    Vec[Op] ops
    Vec[LeaseItem] leases
    Vec[ZnodeOp] znodes
    Vec[Identity] identities
    Vec[uint8_t] znode_keys

# A key record in results, watches and reads.
cdef struct KeyView:
    Bytes key
    Bytes value
    uint64_t create_revision
    uint64_t mod_revision
    uint64_t version
    uint64_t lease
    uint32_t flags
    Bytes extension             # of a znode: its list of rights and its ZnodeMeta; empty: the key has none

cdef void command_init(Command* command) noexcept nogil
# As after command_init; the arenas keep their memory.
cdef void command_clear(Command* command) noexcept nogil
cdef void command_release(Command* command) noexcept nogil
# Clear `command` and decode a payload into it; windows point into payload.
# BAD_LENGTH: cut short or bytes left over. BAD_FIELD: a wrong type, count or range, or not the shortest form; no node
# of
# ours wrote this. COMMAND_INVALID, KEY_INVALID, VALUE_TOO_LARGE (the whole command): refused, and results say it so.
# NO_MEMORY.
# After a failure, command.session and .sequence are right if they could be read, else 0. They say whose answer it is.
cdef status_t command_decode(const uint8_t* payload, uint32_t length, Command* command) noexcept nogil
# Append the payload of command to `out`. A command that command_decode would refuse is refused with the same status,
# and
# `out` stays as it was.
cdef status_t command_encode(const Command* command, Vec[uint8_t]* out) noexcept nogil
# Append the payload of a command that a client with this principal speaks. payload: the command as it is without that.
# BAD_FIELD: no name of a principal. VALUE_TOO_LARGE: it is too large together.
cdef status_t command_speak(const Bytes* principal, uint64_t rights_revision, const uint8_t* payload, uint32_t length,
                            Vec[uint8_t]* out) noexcept nogil
# The common single operation without building a Command: [COMMAND_KEYS, ...] of one Op that is no OP_TXN. `fence` may
# be NULL. The bytes equal those of command_encode.
cdef status_t command_encode_op(const Op* op, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                                const Fence* fence, Vec[uint8_t]* out) noexcept nogil

# --- results ----------------------------------------------------------------------------------------------------------
# A result is [status, revision, body]. The body depends on the kind: nil; for COMMAND_KEYS [succeeded, [op result,
# ...]]
# where an op result is nil, a key record [key, value, create, mod, version, lease, flags], of a
# znode with its extension behind, a number,
# [count, [record, ...]] or nested [succeeded, [...]]; a lease id for grants. Refused: [status, revision seen, detail].
# For COMMAND_GROUPS see docs/formats.md "Groups"; GROUP_REFUSED has Kafka's code as detail. For COMMAND_TOPICS see
# "Topics and offsets"; such a command is answered OK, with codes in its body.
# For COMMAND_RECORDS [code, number, start].
# For COMMAND_ZNODES [result, ...]: of a CREATE [path, stat], of SET_DATA and SET_ACL stat, else nil. ZNODE_REFUSED has
# the detail [position, ZnodeCode].
# The writers below append msgpack. The machine builds results with them, and session tables keep the bytes.
cdef status_t result_begin(Vec[uint8_t]* out, status_t status, uint64_t revision) noexcept nogil
cdef status_t result_nil(Vec[uint8_t]* out) noexcept nogil
cdef status_t result_array(Vec[uint8_t]* out, uint32_t count) noexcept nogil
cdef status_t result_bool(Vec[uint8_t]* out, bint value) noexcept nogil
cdef status_t result_number(Vec[uint8_t]* out, int64_t value) noexcept nogil
cdef status_t result_unsigned(Vec[uint8_t]* out, uint64_t value) noexcept nogil
cdef status_t result_bytes(Vec[uint8_t]* out, const Bytes* value) noexcept nogil
cdef status_t result_key(Vec[uint8_t]* out, const KeyView* key) noexcept nogil
