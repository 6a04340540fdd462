# The whole state as a sequence of chunks (docs/formats.md "Sealed file", "Records"), consistent while apply goes on.
#
# Keys at the history floor in key order, then the change records from there, revision by revision: a loader puts them
# again and has every chain, tombstone and change record as they were. Leases and sessions change in place, so they are
# copied first, in slices between which nothing is applied, and rights after them; of user machines only where their
# bytes stand, which do not change.
#
# A difference holds what changed since an earlier dump of the same machine (docs/formats.md "Differences"): the
# counters, leases, sessions, rights and user machines whole, for they are small or change all the time; of the keys
# and the history only what is new. Nodes that the two roots share are not even looked at.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.machine.entry cimport ENTRY_ZNODE, ZnodeMeta
from raftmeta.machine.state cimport Machine
from raftmeta.machine.tree_state cimport Root
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t

cdef enum:
    FORMAT_DUMP_VERSION = 1
    TUNE_OUTGROWN_SHARE = 8         # of the keys of a base: an eighth
    TUNE_OUTGROWN_OBJECTS = 65536   # some 10 MB; what pins less is worth its memory

# FORMAT_: every record is this head and `length` bytes: the struct of its kind, then what the comment says. All numbers
# are little-endian.
cdef packed struct DumpHead:
    uint32_t length
    uint32_t kind               # DumpRecord

# FORMAT_: kinds of records, in the order in which they come.
cdef enum DumpRecord:
    DUMP_STATE = 1              # once: counters, and the hash that the state has
    DUMP_ENDED = 2              # an ended session id, the oldest first
    DUMP_LEASE = 3
    DUMP_SESSION = 4            # followed by its DUMP_RESULT records
    DUMP_RESULT = 5
    DUMP_KEY = 6                # a key as it was at the history floor, in key order; in a difference only what changed,
                                # and a key that is gone as a tombstone without numbers
    DUMP_REVISION = 7           # followed by its DUMP_CHANGE records
    DUMP_CHANGE = 8
    DUMP_MACHINE = 9            # a user machine, followed by the parts of its dumps and by its tail
    DUMP_PART = 10
    DUMP_COMMAND = 11           # a UserCommand with its data
    DUMP_RIGHTS = 12            # once, and only if rights were ever configured (machine/rights RightsItem), ...
    DUMP_ROLE = 13              # ... as the next two
    DUMP_RIGHTS_USER = 14
    DUMP_LEASE_OWNER = 15       # by id, as the next
    DUMP_SESSION_OWNER = 16
    DUMP_TOKEN = 17             # of rights, by id
    DUMP_SESSION_PROCESS = 20   # by id, as the next: who opened it,
    DUMP_LEASE_PROCESS = 21     # ... who alone keeps it
    # 18, 19 and 22 to 254 are left for what comes.
    DUMP_END = 255

cdef packed struct DumpState:
    uint32_t version            # FORMAT_DUMP_VERSION
    uint32_t feature_level
    uint64_t applied
    uint64_t revision
    uint64_t compacted
    uint64_t lease_ms
    uint64_t hash_low           # state hash
    uint64_t hash_high

cdef packed struct DumpEnded:
    uint64_t id

# Then the owner's note.
cdef packed struct DumpLease:
    uint64_t id
    uint64_t ttl_ms
    uint64_t deadline_ms

cdef packed struct DumpSession:
    uint64_t id
    uint64_t ttl_ms
    uint64_t deadline_ms
    uint64_t floor
    uint64_t highest
    uint64_t window

# Then the encoded result.
cdef packed struct DumpResult:
    uint64_t sequence
    uint64_t revision

# A version of a key: DUMP_KEY and DUMP_CHANGE. Then the key, then the value.
cdef packed struct DumpVersion:
    uint64_t create_revision
    uint64_t mod_revision
    uint64_t version
    uint64_t lease
    uint32_t value_length
    uint16_t key_length
    uint16_t flags

# Whether a version of a znode has room for its extension; of a plain key always.
cdef inline bint version_is_whole(const DumpVersion* version) noexcept nogil:
    cdef const uint8_t* end = <const uint8_t*>version + sizeof(DumpVersion) + version.key_length + version.value_length
    if not version.flags & ENTRY_ZNODE:
        return True
    return version.value_length >= sizeof(ZnodeMeta) and (
        (<const ZnodeMeta*>(end - sizeof(ZnodeMeta))).acl_length <= version.value_length - sizeof(ZnodeMeta))

# Bytes of its value that readers see.
cdef inline uint32_t version_data_length(const DumpVersion* version) noexcept nogil:
    cdef const uint8_t* end = <const uint8_t*>version + sizeof(DumpVersion) + version.key_length + version.value_length
    if not version.flags & ENTRY_ZNODE:
        return version.value_length
    return version.value_length - <uint32_t>sizeof(ZnodeMeta) - (
        (<const ZnodeMeta*>(end - sizeof(ZnodeMeta))).acl_length)

cdef packed struct DumpRevision:
    uint64_t revision
    uint64_t wall_ms
    uint64_t count              # of DUMP_CHANGE records that follow

# Then the name.
cdef packed struct DumpMachine:
    uint64_t point
    uint64_t point_bytes
    uint64_t dump_index
    uint64_t dump_digest
    uint64_t dump_total
    uint64_t staged_index
    uint64_t staged_digest
    uint64_t staged_total

# Then its bytes.
cdef packed struct DumpPart:
    uint64_t is_staged          # 0: of the last whole dump; 1: of the one that is coming

cdef packed struct DumpOwner:
    uint64_t id
    uint64_t owner              # number of a user, or OWNER_NODE

cdef packed struct DumpProcess:
    uint64_t id
    uint64_t member             # incarnation; 0 and boot 0: several keep the lease
    uint64_t boot

cdef packed struct DumpEnd:
    uint64_t hash               # of all records before, each with its head: hash64(hash of those before it, record);
                                # of none: 0, in a difference the hash of the dump it builds on

# begin, prepare until it is done, next until it is done, end. Pinned at begin.
cdef struct Dump:
    void* cursor
# The base of a difference: the root of an earlier dump stays pinned for it. Zeroed: none.
cdef struct DumpBase:
    const Root* root
    uint64_t revision
    uint64_t hash               # of the earlier dump's records

# The thread that applies. NOT_READY: an entry is under way (APPLY_MORE). NO_MEMORY.
cdef status_t machine_dump_begin(Machine* machine, Dump* dump) noexcept nogil
# The thread that applies, which applies nothing before *done: copies about `records` leases, sessions and results.
# INVARIANT_BROKEN: something was applied since begin. NO_MEMORY.
cdef status_t machine_dump_prepare(Machine* machine, Dump* dump, uint32_t records, bint* done) noexcept nogil
# From here on any thread, one at a time, while apply goes on. Appends about bytes_max bytes of whole records to out;
# *done after the last.
cdef status_t machine_dump_next(Machine* machine, Dump* dump, uint32_t bytes_max, Vec[uint8_t]* out,
                                bint* done) noexcept nogil
# The thread that applies.
cdef void machine_dump_end(Machine* machine, Dump* dump) noexcept nogil

# Before the first machine_dump_next: give only what changed since base, which must stay as it is until the dump ends.
cdef void machine_dump_since(Dump* dump, const DumpBase* base) noexcept nogil
# Of a dump that is done: base forgets what it held and holds this one, also after machine_dump_end.
cdef void machine_dump_keep(Machine* machine, Dump* dump, DumpBase* base) noexcept nogil
# The state that machine_load_done accepted, before anything is applied to it, as base.
cdef void machine_dump_base_loaded(Machine* machine, DumpBase* base) noexcept nogil
cdef void machine_dump_base_forget(Machine* machine, DumpBase* base) noexcept nogil
# So much was overwritten since that a difference would hardly be smaller than a whole dump, while what was overwritten
# stays in memory for its sake. The thread that applies.
cdef bint machine_dump_base_is_outgrown(const DumpBase* base) noexcept nogil
