# The struct that loading a history fills: its columns, its operations, the components that they form.
#
# Only raftmeta/check/load writes it; the modules that read a kind of operation number the keys that they meet.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from raftmeta.check.interner cimport Interner
from raftmeta.check.json_text cimport Text
from raftmeta.check.meaning cimport Reason
from raftmeta.check.model cimport Model, Operation
from raftmeta.native.containers cimport Map64, Vec

cdef enum EventKind:
    EVENT_INVOKE = 0
    EVENT_OK = 1
    EVENT_FAIL = 2              # certainly not executed
    EVENT_INFO = 3              # perhaps executed, perhaps later

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

# The number of a key; below 0: no memory.
cdef int32_t loaded_key(Loaded* loaded, Text text) noexcept nogil
# Make room for what is kept of each key. False: no memory.
cdef bint loaded_grow_keys(Loaded* loaded) noexcept nogil
cdef Text text_at(const TextColumn* column, int64_t row) noexcept nogil
