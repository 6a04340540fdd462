# User machines as replicated state: the commands that each was given since its last dump, and that dump, both as opaque
# bytes (docs/replicated.md). It never runs a command: every node's copy does, in Python, as fast as it can.
#
#     users_command       an entry gives a machine one more command: it goes to the end of its tail
#     users_dump_part     an entry brings a part of the dump that the copies made at the machine's point
#     users_take          what a copy has to do next, for the thread that runs it
#
# Why dumps are entries: dump and tail are then the same on every node, so a node that restarts, joins or lags starts
# from them, snapshots carry them, and no log is kept for a copy that is slow (docs/decisions/user-machines.md).
#
# Invariants: dump.index < every index of the tail, ascending; point is 0 or that of a command of the tail; staged is
# empty or a beginning of the dump at point.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Chunk
from raftmeta.native.containers cimport Ring, Vec
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.raft.types cimport Record, index_t
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes, Command

# Replicated state depends on them: as FORMAT_.
cdef enum:
    FORMAT_MACHINES_MAX = 256
    FORMAT_MACHINE_NAME_BYTES_MAX = 64
    FORMAT_USER_DUMP_BYTES_MAX = 256 << 20
    # A dump is due when the tail takes as many bytes as the last dump, and at least these: so dumps at most double
    # what the log has to carry. Or when that many commands would have to be run again, one MiB of dump counting as
    # as many once more.
    FORMAT_DUMP_AFTER_BYTES = 1 << 20
    FORMAT_DUMP_AFTER_COMMANDS = 10_000
    # A tail that no copy makes a dump of: beyond these and twice the last dump, commands are refused OVERLOADED.
    FORMAT_TAIL_BYTES_MAX = 64 << 20

# FORMAT_: a command as it stands in the tail, in dumps of the state and in what users_take gives; then `length` bytes
# of data, padded to 8.
cdef packed struct UserCommand:
    index_t index
    uint64_t session            # (session, sequence): whose results may be forgotten; 0: nobody's
    uint64_t sequence
    uint64_t lowest_unanswered
    uint64_t wall_ms            # of the entry
    uint64_t length

# A dump, or the beginning of one.
cdef struct UserDump:
    index_t index               # of the last command in it; 0: there is none
    uint64_t digest             # of the object's state alone, by the node that made it
    uint64_t total              # bytes it has when whole
    uint64_t bytes              # ... so far
    Vec[Chunk*] parts           # as they came
    Hash128 hash                # of the parts, each by the one before

# A piece of the tail: whole commands, never changed once they stand there.
cdef struct TailBlock:
    Chunk* chunk
    index_t first

cdef struct UserMachine:
    uint8_t name_length
    uint8_t[FORMAT_MACHINE_NAME_BYTES_MAX] name
    index_t last                # its newest command; dump.index when the tail is empty
    index_t point               # the command after which every copy makes a dump; 0: none is due
    uint64_t point_bytes        # of the tail when the point was set
    UserDump dump
    UserDump staged
    Ring[TailBlock] tail
    uint32_t tail_start         # in the first block: what stands before is in the dump
    uint64_t tail_bytes
    uint64_t tail_count
    Hash128 addend              # its part of UserMachines.hash, the tail apart

cdef struct UserMachines:
    Vec[UserMachine*] machines  # in the order of their first commands
    Hash128 hash                # sum over machines and commands of tails

cdef inline uint64_t user_command_bytes(uint64_t length) noexcept nogil:
    return sizeof(UserCommand) + (length + 7 & ~<uint64_t>7)

cdef void users_release(UserMachines* users) noexcept nogil
# NULL: no command ever named it.
cdef UserMachine* users_find(const UserMachines* users, const uint8_t* name, uint32_t length) noexcept nogil
# The command is the machine's next. OVERLOADED: the tail is full. TOO_MANY_MACHINES, COMMAND_INVALID (the name),
# NO_MEMORY.
cdef status_t users_command(UserMachines* users, const Command* command, const Record* record) noexcept nogil
# *staged: bytes of the dump at the machine's point that stand here now; the sender goes on behind them. COMPARE_FAILED:
# a dump of another point, a part that does not follow, or another dump than the one that was begun.
cdef status_t users_dump_part(UserMachines* users, const Command* command, uint64_t* staged) noexcept nogil
# Whether the tail has grown by half since the point was set: whoever has the dump may send it, not the leader only.
cdef bint user_dump_is_late(const UserMachine* machine) noexcept nogil
# Append commands with an index above `after`, in order: about bytes_max bytes, at least one if there is one.
cdef bint users_take(UserMachine* machine, index_t after, size_t bytes_max, Vec[uint8_t]* out) noexcept nogil

# --- loading (machine/load) -------------------------------------------------------------------------------------------
# A machine as it was, without its bytes. BAD_FIELD, NO_MEMORY.
cdef status_t users_restore(UserMachines* users, const UserMachine* image) noexcept nogil
# To the machine restored last.
cdef status_t users_restore_part(UserMachines* users, bint is_staged, const Bytes* part) noexcept nogil
cdef status_t users_restore_command(UserMachines* users, const UserCommand* head, const uint8_t* data) noexcept nogil
# Everything announced has come.
cdef bint users_are_whole(const UserMachines* users) noexcept nogil
