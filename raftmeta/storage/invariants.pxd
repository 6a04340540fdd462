# Beliefs of the log and of the sealed files about their callers, themselves and the DiskPort behind them.
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.native.invariants cimport Broken, broken
from raftmeta.ports cimport DiskPort, file_t
from raftmeta.status cimport OK, status_t

cdef enum StorageInvariant:
    # Of whoever calls the log.
    BROKEN_WAL_NOT_WRITABLE = 101       # a = 1: it was opened, b = 1: it may be written
    BROKEN_WAL_OPENED_TWICE = 102       # a = last index found, b = first
    BROKEN_BATCH_PLACE = 103            # a = first index of a batch, b = last of the log: a hole, or what is compacted
    BROKEN_REPAIR_PLACE = 104           # a = last index of a repair, b = last of the log
    BROKEN_BATCH_RECORD = 105           # a = index of a record, b = the one that must come here
    BROKEN_BATCH_TORN = 106             # a = bytes of whole records in a slice, b = bytes of the slice
    BROKEN_BATCH_COUNT = 107            # a = last index that the slices hold, b = last that the batch names
    BROKEN_BATCH_SLICES = 108           # a = slices of a batch without records, b = 0
    # Before a write, and after it.
    BROKEN_BATCH_LENGTH = 109           # a = bytes of an encoded batch, b = bytes that its place was chosen for
    BROKEN_BATCH_OFFSET = 110           # a = offset of a batch, b = end of the segment before it
    BROKEN_BATCH_BEYOND = 111           # a = end of a batch, b = end of its segment
    BROKEN_LOG_END = 112                # a = last index of the newest extent, b = last of the log
    BROKEN_LOG_START = 113              # a = start of the log after a compaction, b = before it
    BROKEN_LOG_BYTES = 114              # a = bytes of all segments, b = of one of them
    # After a read.
    BROKEN_READ_LENGTH = 115            # a = bytes that the port gave, b = bytes that it was asked for
    BROKEN_READ_RECORD = 116            # a = index of the first record read, b = the one asked for
    # Of sealed files.
    BROKEN_SEALED_CLOSED = 117          # a = chunks written, b = offset: the file is not open
    BROKEN_SEALED_OFFSET = 118          # a = bytes written, b = bytes of header and chunks
    BROKEN_SEALED_CHUNKS = 119          # a = checksums kept, b = header and chunks
    # Of encryption.
    BROKEN_BATCH_ENCRYPTED = 120        # a = bytes of encrypted records, b = bytes that the batch names
    # Of segments.
    BROKEN_BATCH_ALIGNMENT = 121        # a = offset of a batch, b = alignment: acknowledged bytes stand in that sector
    BROKEN_BATCH_SEGMENT = 122          # a = segment of a batch that was written, b = the last one of the log
    BROKEN_SEGMENT_ORDER = 123          # a = number of a segment, b = of the one before it
    BROKEN_RETIRED_NEWEST = 124         # a = number of a segment that leaves the log, b = of the last one
    # Of where the records are: after an opening, and after a compaction.
    BROKEN_RUN_ORDER = 126              # a = first index of a run of records, b = last index before it
    BROKEN_RUN_BEYOND = 127             # a = last index of a run, or damaged index, b = last of the log
    BROKEN_LOG_RECORDS = 128            # a = records that are in runs or damaged, b = records of the log
    BROKEN_LOG_COMPACTED = 129          # a = start of the log after a compaction, b = last index that may go
    # Of the split keys of a sealed file.
    BROKEN_SEALED_SPLITS = 130          # a = splits, b = chunks, of which each has one at most

# A read of a port, which gives no more than it was asked for.
cdef inline status_t read_at_most(const DiskPort* disk, Broken* first, file_t file, uint64_t offset, uint8_t* into,
                                  size_t length, size_t* got) noexcept nogil:
    cdef status_t status = disk.read(disk.self, file, offset, into, length, got)
    if status == OK and got[0] > length:
        return broken(first, BROKEN_READ_LENGTH, got[0], length)
    return status
