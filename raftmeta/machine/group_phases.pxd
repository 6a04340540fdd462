# The phases of a worker group: members join, the generation is complete, the leader assigns (docs/groups.md "States").
#
# This module decides when a phase begins and ends, and who goes with its end. A phase is told by GroupMeta alone; its
# timer begins and ends in groups_settle, when the plan is whole.
from libc.stdint cimport uint32_t

from raftmeta.machine.group_keys cimport Group
from raftmeta.machine.group_records cimport GROUP_EMPTY, GROUP_STABLE, MemberView
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t

# A member of a consumer group came, went, or reads something else: its members need another target.
cdef inline void group_next_epoch(Group* group) noexcept nogil:
    group.record.meta.generation += 1
    group.record.meta.state = GROUP_STABLE if group.record.meta.members else GROUP_EMPTY
    group.is_new_generation = True

cdef void group_begin_timer(Machine* machine, Group* group, uint32_t timer_ms) noexcept nogil
# Members join for the next generation (GroupCoordinator.prepareRebalance). initial_ms: of the join that finds the group
# empty. NO_MEMORY.
cdef status_t group_prepare(Machine* machine, Group* group, uint32_t initial_ms) noexcept nogil
# End the join phase if nobody is awaited (DelayedJoin). The same statuses as group_complete.
cdef status_t group_maybe_complete(Machine* machine, Group* group) noexcept nogil
# End the join phase (GroupCoordinator.onCompleteJoin). NO_MEMORY, TOO_MANY_CHANGES, INVARIANT_BROKEN.
cdef status_t group_complete(Machine* machine, Group* group) noexcept nogil
# The member goes; nothing follows from it yet. NO_MEMORY, TOO_MANY_CHANGES, INVARIANT_BROKEN.
cdef status_t group_remove(Machine* machine, Group* group, MemberView* member) noexcept nogil
# A member went: the group prepares, or no longer waits for it (GroupCoordinator.removeMemberAndUpdateGroup,
# removePendingMemberAndUpdateGroup). A consumer group has another epoch. The same statuses as group_complete.
cdef status_t group_after_removal(Machine* machine, Group* group, bint was_pending) noexcept nogil
