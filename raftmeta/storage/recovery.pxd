# Finds what is still there: reads all segments and the mark, follows the stream, and tells a torn tail from damage.
#
#     torn        the last batch begun, nothing of it ever acknowledged: a power cut may leave any mixture of it
#     damaged     bytes that were synced are not what was written, but the chain hash of each lost record is known
#     lost        records were acknowledged and not even their hashes are known, or the order of batches is broken
#
# A batch was synced, and may have been acknowledged, if a later batch or segment exists, or if the mark covers it. Only
# the one batch for which neither holds may be cut (decisions/log.md D2).
from libc.stdint cimport uint64_t

from raftmeta.status cimport status_t
from raftmeta.storage.wal_state cimport Wal

cdef enum RecoveryFound:
    FOUND_BLANK = 1
    FOUND_CLEAN = 2
    FOUND_TORN = 3
    FOUND_DAMAGED = 4
    FOUND_LOST = 5
    FOUND_VOID = 6

#     void        all that can be read was left by WalLimits.void_owner
#
# Fills the Wal's fields from its files; changes no file. Segments keep their images for wal_open's answer.
# NEWER_FORMAT; NO_KEY; FOREIGN_NODE: another owner's segment or mark; DISK_FAILED; NO_MEMORY.
cdef status_t recover(Wal* wal, RecoveryFound* found, uint64_t* torn_bytes) noexcept nogil
# The number in a segment's file name, 0: not one. The name of number.
cdef uint64_t segment_number(const char* name) noexcept nogil
cdef void segment_name(uint64_t number, char* name) noexcept nogil
# The same of a segment that left the log and waits to be used again.
cdef uint64_t retired_number(const char* name) noexcept nogil
cdef void retired_name(uint64_t number, char* name) noexcept nogil
