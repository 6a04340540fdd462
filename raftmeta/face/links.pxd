# Names out of a copy of the table of links (NodeBase.read_links).
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.loop.loop cimport LinkTable

# The member at the other end of the link of that name; raises InvalidArgument.
cdef uint64_t id_of_link(const LinkTable* links, object name) except 0
# "": there is no such place.
cdef str name_of_link(const LinkTable* links, uint64_t place)
# A bit for each place, in order of names.
cdef list names_of_links(const LinkTable* links, uint32_t places)
# Peers that this node has no connection to.
cdef list unreachable(const LinkTable* links)
