# A node's handle of one of its doors, whatever protocol the door speaks.
from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.connections.state cimport Connections
from raftmeta.loop.loop cimport Loop
from raftmeta.security.tls_state cimport TlsContext
from raftmeta.status cimport status_t

cdef enum:
    DOORS_MAX = 8

# The native door. Its own struct begins with its Connections.
cdef struct DoorBlock:
    Connections* connections    # NULL: it is not open, or somebody else ends it
    status_t (*start)(Connections* connections) noexcept nogil      # after the loop has started
    void (*destroy)(Connections* connections) noexcept nogil        # after the loop has ended

# A protocol's module derives from it.
cdef class OpenDoor:
    cdef DoorBlock block

    # Fill `block`, after the loop was opened and before it is started. program: what the host does for the door; None:
    # nothing. Raises AddressInUse, ConfigError.
    cdef int open(self, Loop* loop, Accounts* accounts, object identity, object config, object program) except -1
    # Set what the protocol wants of TLS.
    cdef void prepare(self, TlsContext* context) noexcept
    # Empty once somebody else ends it.
    cdef dict metrics(self)

# Append to `doors` an OpenDoor of each door that the identity has an address for, one by one. programs: by the name of
# the address.
cdef int open_doors(list doors, Loop* loop, Accounts* accounts, object identity, object config,
                    dict programs) except -1
# Move the blocks to `blocks`; how many they are. No Python code runs.
cdef int take_doors(list doors, DoorBlock* blocks) noexcept
