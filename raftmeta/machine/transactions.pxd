# Transactions: from a decoded command to a plan of changes and a result, or a refusal.
#
# Operations run in their order; each sees what those before it wrote. The first refused one refuses the whole command.
# It never changes the state: plan.pyx holds what is to be done, machine.pyx does it. Long transactions are evaluated
# in steps.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.machine.leases cimport Leases
from raftmeta.machine.plan cimport Plan
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport TXN_DEPTH_MAX, Command, KeyView

cdef enum:
    FORMAT_RESULT_BYTES_MAX = 16 << 20  # of one transaction's result; VALUE_TOO_LARGE beyond

# One list of operations under way.
cdef struct TxnFrame:
    uint32_t first              # in Command.ops
    uint32_t next
    uint32_t end

cdef struct Transaction:
    const Command* command
    Plan* plan
    Leases* leases
    uint32_t value_bytes_max
    uint64_t index              # of the entry
    Vec[uint8_t] body           # of the result, as far as evaluated
    Vec[int64_t] numbers        # results of OP_ADD, by position in Command.ops
    Vec[KeyView] views          # of the range under way
    uint32_t depth
    TxnFrame[TXN_DEPTH_MAX + 1] frames
    uint32_t refused            # position in Command.ops of the refused operation
    uint32_t compared           # keys that compares over ranges looked at

cdef void transaction_release(Transaction* transaction) noexcept nogil
# Evaluate the compares of the command's root transaction. plan must be clear; index is that of the entry.
cdef status_t transaction_begin(Transaction* transaction, const Command* command, Plan* plan, Leases* leases,
                                uint32_t value_bytes_max, uint64_t index) noexcept nogil
# Evaluate about `keys_max` more keys; *done when the whole transaction is. A Refused status, or NO_MEMORY.
cdef status_t transaction_step(Transaction* transaction, uint32_t keys_max, bint* done) noexcept nogil
