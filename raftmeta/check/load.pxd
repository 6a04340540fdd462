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
from raftmeta.check.loaded cimport (EVENT_FAIL, EVENT_INFO, EVENT_INVOKE, EVENT_OK, NO_EVENT, Columns, Component,
                                    EventKind, Loaded, Malformed, TextColumn)
from raftmeta.status cimport status_t

# loaded.columns, meanings and code_count must be set, and model.width to 0 for a table, else to 1.
cdef status_t load(Loaded* loaded) noexcept nogil
cdef void load_release(Loaded* loaded) noexcept nogil
