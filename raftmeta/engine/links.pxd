# The table of links by name: who has a place, and who gets one.
#
# A place goes to another name when nobody needs it. Its tenancy then counts on, so that an older connection of the
# former name (Inbound) is not taken for one of the new.
from libc.stdint cimport uint8_t

from raftmeta.engine.state cimport Links

# Position of a name, -1: it has none.
cdef int find_name(const Links* links, const uint8_t* name, uint8_t name_length) noexcept nogil
# Position of a name, a new one if there is room; -1: the table is full. An address of length 0 leaves the one known.
cdef int link_of_name(Links* links, const uint8_t* name, uint8_t name_length, const uint8_t* address,
                      uint8_t address_length) noexcept nogil
