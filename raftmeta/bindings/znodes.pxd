# Requests for znodes from Python objects, their results to Python objects (raftmeta/operations.py has the shapes).
#
# It decides whether an argument is one (InvalidArgument names the field), and never what the machine will find: paths
# and lists of rights are ZooKeeper's to judge, and machine/znodes does that. All functions hold the GIL.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.wire.windows cimport Bytes

# The beginning of all keys of a tree: 1 .. ZNODE_ROOT_BYTES_MAX bytes without "/" and zero bytes. The window points
# into the object.
cdef int take_root(object root, Bytes* into) except -1
# The request, as a command carries it. identities: pairs of scheme and id.
cdef bytes znodes_request(tuple asked, tuple identities, uint32_t value_bytes_max)
# Whether it is taken also where there is no room for others: it only removes and checks.
cdef bint znodes_are_urgent(tuple asked)
# A ZnodesReply from a result whose status is OK. InvariantBroken: it is none.
cdef object znodes_reply(uint64_t revision, uint64_t index, const uint8_t* data, size_t length)
