# From the columns of a history to components: pairs of events, programs or kinds of operations, and keys that belong
# together.
#
# Components are the keys of the history, joined where a transaction touches several. The history is linearizable
# exactly
# if each component is (Herlihy & Wing 1990, locality; Horn & Kroening 2015, P-compositionality). Here, and only here,
# input from outside is checked. An event that makes no sense is written down with a reason. It taints the component
# that
# it would have belonged to, or all components when nobody can tell which.
#
# It decides which operations there were and which keys belong together. It never decides whether an answer was right.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from raftmeta.check.interner cimport Interner
from raftmeta.check.json_text cimport Text
from raftmeta.check.model cimport Model, Operation
from raftmeta.native.containers cimport Map64, Vec
from raftmeta.status cimport status_t

cdef enum EventKind:
    EVENT_INVOKE = 0
    EVENT_OK = 1
    EVENT_FAIL = 2              # certainly not executed
    EVENT_INFO = 3              # perhaps executed, perhaps later

# What an operation of a history means to the model; operations are named by codes.
cdef enum Meaning:
    MEANING_NONE = 0            # the model does not know it
    MEANING_READ = 1
    MEANING_WRITE = 2
    MEANING_CAS = 3
    MEANING_DELETE = 4
    MEANING_TRANSACTION = 5
    MEANING_TABLE = 6           # a model written in Python knows
    MEANING_OBSERVER = 7        # the same, and it changes no state, whatever it returns
    # Of native objects (raftmeta/check/objects.pxd).
    MEANING_SET_ADD = 8
    MEANING_SET_REMOVE = 9
    MEANING_SET_CONTAINS = 10
    MEANING_SET_READ = 11
    MEANING_QUEUE_ENQUEUE = 12
    MEANING_QUEUE_DEQUEUE = 13
    MEANING_LOCK_ACQUIRE = 14
    MEANING_LOCK_RELEASE = 15
    MEANING_LIST_APPEND = 16
    MEANING_LIST_READ = 17
    MEANING_COUNTER_ADD = 18
    MEANING_COUNTER_READ = 19
    MEANING_TEXT_WRITE = 20
    MEANING_TEXT_APPEND = 21
    MEANING_TEXT_READ = 22

cdef enum Reason:
    REASON_SEQ = 1
    REASON_KIND = 2
    REASON_OPERATION = 3
    REASON_UNDER_WAY = 4
    REASON_NOT_INVOKED = 5
    REASON_OTHER_OPERATION = 6
    REASON_OTHER_KEY = 7
    REASON_ARGUMENTS = 8
    REASON_RESULT = 9
    REASON_REVISION = 10

# Texts of a column as Arrow lays them out; an empty text is "not given".
cdef struct TextColumn:
    const int64_t* offsets      # rows + 1
    const uint8_t* bytes

# Borrowed; must live as long as what was loaded from it.
cdef struct Columns:
    int64_t rows                # below NEVER
    const int64_t* seq
    const int64_t* process
    const int8_t* kind
    const int32_t* operation    # a code
    const int64_t* revision     # below 0: not told
    TextColumn key
    TextColumn arguments
    TextColumn result

cdef struct Malformed:
    int32_t row
    Reason reason

cdef struct Component:
    int32_t operation           # the first one
    int32_t operation_count
    int32_t event               # the first one
    int32_t event_count
    int32_t width               # keys
    int32_t key                 # the first one
    bint is_tainted

# Zeroed is empty.
cdef struct Loaded:
    Columns columns
    const int8_t* meanings      # by code
    int32_t code_count
    Model model
    Interner keys
    Interner values             # "null" is VALUE_ABSENT
    Interner kinds              # code, crashed, length of the arguments, arguments, result
    Vec[Operation] operations   # by component, within one in the order of their invocations
    Vec[int32_t] events         # by component; numbers count from the component's first operation
    Vec[Component] components   # in the order of their first keys
    Vec[int32_t] component_of_key
    Vec[int32_t] slot_of_key    # counted within its component
    Vec[int32_t] key_after      # of a key: the next one of its component, or NONE
    Vec[Malformed] malformed
    bint is_all_tainted
    int64_t failed              # operations that certainly were not executed
    int64_t unaffecting         # ... that can neither change nor tell anything
    # Only while loading.
    Map64[int32_t] under_way    # process -> operation + 1, or 0: invoked, but in quarantine
    Vec[int32_t] operation_at   # row -> event, or NO_EVENT
    Vec[int32_t] first_key      # operation -> key, or NONE: left out
    Vec[int32_t] parent         # union-find over keys
    Vec[uint8_t] key_is_tainted
    Vec[uint8_t] scratch

cdef enum:
    NO_EVENT = -2147483647 - 1

# loaded.columns, meanings and code_count must be set, and model.width to 0 for a table, else to 1.
cdef status_t load(Loaded* loaded) noexcept nogil
# The number of a key; below 0: no memory.
cdef int32_t load_key(Loaded* loaded, Text text) noexcept nogil
cdef Text text_at(const TextColumn* column, int64_t row) noexcept nogil
cdef void load_release(Loaded* loaded) noexcept nogil
