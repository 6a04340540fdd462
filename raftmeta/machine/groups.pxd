# Worker groups: members, one leader, a generation and assignments (docs/groups.md; docs/decisions/groups.md).
#
# A group is a key with ENTRY_GROUP, and each member a key behind it with ENTRY_MEMBER. This module decides, at apply,
# what a request does: the table of docs/groups.md. Nothing here waits: who waits for a phase reads the group's key.
# Only this module makes, changes and removes these keys; other writes to them are refused (transactions.pyx).
#
# Invariants: each member has the lease of its owner; a group has a lease of the machine's exactly while its timer runs,
# which is while it is PREPARING or COMPLETING; GroupMeta counts its members; a generation is a create revision of the
# group's key, an assignment one of the member's key, so that a fence on either ends with it.
from libc.stdint cimport uint64_t

from raftmeta.machine.leases cimport Lease
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

# Do the request of machine.command (COMMAND_GROUPS) as a plan. The body of the answer stands in
# machine.transaction.body; that of a refusal too. OK, GROUP_REFUSED, LEASE_EXPIRED, TOO_MANY_CHANGES, NO_MEMORY.
cdef status_t groups_run(Machine* machine) noexcept nogil
# Make the group Empty; there is none. NO_MEMORY, TOO_MANY_CHANGES.
cdef status_t groups_make_empty(Machine* machine, const Bytes* key) noexcept nogil
# A lease takes the member `key` with it: plan its removal, and what becomes of its group. NO_MEMORY, INVARIANT_BROKEN.
cdef status_t groups_plan_removed(Machine* machine, const Bytes* key) noexcept nogil
# The timer of a group is over: plan the end of its phase; that of its offsets: plan that both go. NO_MEMORY,
# TOO_MANY_CHANGES.
cdef status_t groups_timer(Machine* machine, const Lease* lease) noexcept nogil
# Keys that may go when the timer of this lease is over; 0: it is no timer.
cdef uint64_t groups_timer_size(const Lease* lease) noexcept nogil
# The plan is whole and will be made: timers begin and end with it. index: of the entry. NO_MEMORY, INVARIANT_BROKEN.
cdef status_t groups_settle(Machine* machine, uint64_t index) noexcept nogil
