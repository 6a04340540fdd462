# Sets, queues, locks, lists, counters and texts as native models: the effect of an operation on a state.
#
# A state is a string of bytes with a number (Model.states): 32-bit numbers of values for a set (in ascending order), a
# queue, a list and the owner of a lock; a 64-bit number for a counter; escaped characters for a text. An operation is
# read once, when the history is loaded, and has the number of its kind (Model.calls). The search asks for a transition
# once and remembers the answer (Model.transitions), as it does with a model written in Python. The definitions in
# raftmeta/check/models.py say the same in Python.
#
# It decides what an operation may return. It never knows about time, processes or order.
from libc.stdint cimport int32_t

from raftmeta.check.interner cimport Interner
from raftmeta.check.json_text cimport Text
from raftmeta.check.model_state cimport Model, ObjectCall
from raftmeta.status cimport status_t

# By the numbers of raftmeta/check/prepared.py.
cdef enum Object:
    OBJECT_NONE = 0             # a program, or a model written in Python
    OBJECT_SET = 1
    OBJECT_QUEUE = 2
    OBJECT_LOCK = 3
    OBJECT_LIST = 4
    OBJECT_COUNTER = 5
    OBJECT_TEXT = 6

# State 0, before the first operation: the canonical text of a value, "null" for an empty object. 0, 1: this object
# cannot have this value; -1: no memory.
cdef int32_t object_begin(Model* model, Interner* values, Object object_, Text initial) noexcept nogil
# Read an operation. meaning: of meaning.pxd. 0, a Reason of meaning.pxd, or -1: no memory.
cdef int32_t object_call(Model* model, Interner* values, int32_t meaning, Text arguments, Text result, bint is_crashed,
                         ObjectCall* call) noexcept nogil
# The state after the call of this kind, or STATE_ILLEGAL, STATE_NO_MEMORY.
cdef int32_t object_step(Model* model, int32_t state, const ObjectCall* call) noexcept nogil
# Every state but the first is forgotten if they need much memory: another component begins.
cdef void object_forget(Model* model) noexcept nogil
