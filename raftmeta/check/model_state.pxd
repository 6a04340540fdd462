# The shapes of a model: operations as programs or as calls of native objects, and the struct of states and transitions.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t

from raftmeta.check.interner cimport Interner
from raftmeta.native.containers cimport Map64, Vec

cdef enum:
    STATE_ILLEGAL = -1          # the operation cannot have returned what it returned, in this state
    STATE_ASKS = -2             # a transition of a table that is not known yet
    STATE_NO_MEMORY = -3
    STATE_NO_BRIDGE = -4        # witness only: no crashed operation helps
    VALUE_ABSENT = 0            # the value of a key that is not there, and of null
    NEVER = 0x7FFFFFFF          # Operation.completed_at of a crashed one

cdef enum Expected:
    EXPECTED_ANY = 0            # crashed: the guards decide which branch ran
    EXPECTED_TRUE = 1           # the guards held
    EXPECTED_FALSE = 2          # at least one guard did not

cdef struct Micro:
    int32_t slot                # which key, counted within its component
    int32_t value
    int32_t is_write            # else: a demand, or a guard

cdef struct Operation:
    int32_t called_at           # position of its invocation in the history
    int32_t completed_at        # ... of its completion; NEVER: crashed, its outcome is unknown
    int64_t revision            # at which the store executed it; NONE when not told
    uint32_t micro              # its guards, then-branch and else-branch begin here in Model.micros
    uint16_t guard_count
    uint16_t then_count
    uint16_t else_count
    uint8_t expected
    uint8_t can_change          # there is a state that it changes
    int32_t kind                # tables: number of (operation, arguments, result); programs: equal when crashed alike

cdef enum Told:
    TOLD_NOTHING = 0            # crashed, or its result was not written down
    TOLD_TRUE = 1               # it succeeded, or `number`, `value` or the bytes are what it returned
    TOLD_FALSE = 2

# An operation on a native object: its meaning (raftmeta/check/meaning.pxd), arguments and result.
cdef struct ObjectCall:
    int32_t meaning
    int32_t reason              # why it makes no sense, or 0
    int32_t told
    int32_t value               # number of the value that it names
    int64_t number              # that it returned
    int64_t amount              # that it adds
    size_t offset               # of its bytes in Model.object_results
    size_t length

# Zeroed, with a width, is usable.
cdef struct Model:
    int32_t width               # keys of a state; 0: a table
    Vec[Micro] micros
    Vec[int32_t] vectors        # width > 1: the values of state n at n * width
    Vec[int32_t] vector_slots   # open addressing over them: state + 1, 0 is free
    Vec[int32_t] scratch
    Map64[int32_t] transitions  # state << 32 | kind -> next state + 2, or 1: illegal
    int32_t asked_state
    int32_t asked_kind
    Vec[ObjectCall] calls       # native objects only, by kind; none: the model is written in Python
    Interner states             # ... by number
    Vec[uint8_t] object_results     # bytes of calls
    Vec[uint8_t] object_initial     # state 0
    Vec[uint8_t] object_scratch
