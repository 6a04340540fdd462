# The offsets of a group as keys: their head, their number, and the timer that ends them (docs/kafka-topics.md).
#
# A group with offsets has a head behind it, and each offset is a key of its own. This module follows the group: while it
# has no members a timer of the machine's runs, and everything goes when it ends. It decides no request.
#
# Invariants: a group with an offset has a head, which counts them; a head has a lease of the machine's exactly while
# its timer runs, which is while the group is Empty and its offsets do not stay for ever.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.machine.leases cimport Lease
from raftmeta.machine.plan cimport Planned
from raftmeta.machine.state cimport Machine
from raftmeta.machine.topic_records cimport OffsetsMeta
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

# The head of the group's offsets, as the entry under way sees it; zeros if there is none. False: there is none.
cdef bint offsets_head(Machine* machine, const Bytes* group, OffsetsMeta* head) noexcept nogil
# Write the head; is_empty: the group is Empty. Its timer begins anew if must_begin, or if none runs. NO_MEMORY,
# TOO_MANY_CHANGES.
cdef status_t offsets_store(Machine* machine, const Bytes* group, OffsetsMeta* head, bint is_empty,
                            bint must_begin) noexcept nogil
# The group was written: its timer runs if it is Empty, and ends if not. As above.
cdef status_t offsets_follow(Machine* machine, const Bytes* group, bint is_empty) noexcept nogil
# Plan that all offsets of the group go, and their head. NO_MEMORY, TOO_MANY_CHANGES.
cdef status_t offsets_forget(Machine* machine, const Bytes* group) noexcept nogil
# Keys of the offsets that end with this lease, and their head; 0: it is no timer of offsets.
cdef uint64_t offsets_timer_size(const Lease* lease) noexcept nogil
# What the plan says about the timer of a head: how long it runs (0: it does not), and whether it begins with the plan.
cdef uint64_t offsets_timer_ms(const Planned* planned, bint* is_new) noexcept nogil
