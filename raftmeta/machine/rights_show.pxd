# Users and roles as values for people and programs, in pages: what `auth.users()` and `auth.roles()` are made of.
#
# It shows names, roles, grants and ids of tokens. It never shows a secret. Who may see a page decides whoever asks for
# it (server/rights).
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.machine.rights_state cimport RightsTable
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes

# FORMAT_: on the wire.
cdef enum RightsPage:
    PAGE_SELF = 0               # whether rights are on, and who asks; no items
    PAGE_USERS = 1
    PAGE_ROLES = 2

# Append a page (docs/formats.md "Client protocol", answer to rights): names from `first` on, `limit` of them (0: as
# many as fit bytes_max, at least one). table NULL: nothing was ever configured. asking: the name of the user who asks.
# NO_MEMORY.
cdef status_t rights_show(const RightsTable* table, RightsPage page, const Bytes* asking, const Bytes* first,
                          uint32_t limit, uint32_t bytes_max, Vec[uint8_t]* out) noexcept nogil
