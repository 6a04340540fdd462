# Which leases there are, in pages, for clients that list them; and the keys of one.
#
# Leases are not in the published tree: they are the loop's, so a page of them is made there, between two turns of
# apply. It decides how much one page holds. It never asks the leader: a page is what this node has applied.
from raftmeta.engine.state cimport Engine
from raftmeta.engine.submission cimport Submission

# SUBMIT_LIST_LEASES: answer the submission, and free it.
cdef void leases_submit(Engine* engine, Submission* submission) noexcept nogil
# SUBMIT_SHOW_LEASE.
cdef void leases_show(Engine* engine, Submission* submission) noexcept nogil
