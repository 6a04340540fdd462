# Requests for worker groups from Python values (raftmeta/verbs/groups.py has the shapes). All functions hold the GIL.
#
# It decides how a request is encoded, and never what the machine will say. raftmeta/verbs/groups.py checks arguments.

# asked: (verb, fields behind it as in docs/formats.md "Groups", a list of pairs as a list of tuples of bytes).
cdef bytes group_request(tuple asked)
cdef bint is_join(tuple asked)
