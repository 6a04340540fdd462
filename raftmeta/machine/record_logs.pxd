# Record logs: the batches of the partitions of Kafka's topics, kept as keys (docs/kafka-records.md).
#
# This module decides, at apply, what a request does: an append gives a batch its offsets, finds a producer's
# duplicates, compacts, and lets old batches go. One request is one entry. It knows no topics: the fence of the command
# says that the topic is there. Only this module makes, changes and removes keys of record logs; other writes to them
# are refused (transactions.pyx).
#
# Invariants: offsets rise without a gap and are given once; a batch stays until a later record has each of its keys, or
# a limit is passed, or a trim; of a producer's batch and its repetitions one is stored; in a compacted log each key of
# the records that may be looked at has one record, the last.
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t

cdef enum:
    FORMAT_RECORD_LOG_BYTES_MAX = 64 << 20      # of all batches of one log
    FORMAT_RECORD_KEYED_MAX = 2_000             # records of a batch whose keys are known; larger ones are kept whole
    FORMAT_RECORD_PRODUCERS_MAX = 1_000         # of a log; the one that appended least recently goes

# Do the request of machine.command (COMMAND_RECORDS) as a plan. The body of the answer stands in
# machine.transaction.body; it begins with a code (RecordsCode), and with another one than 0 nothing is changed.
# OK, COMMAND_INVALID, TOO_MANY_CHANGES, NO_MEMORY, INVARIANT_BROKEN.
cdef status_t records_run(Machine* machine) noexcept nogil
